/*
 * launch.c: reads gridsmith.launch/1: the grid, the block and the arguments of a kernel call.
 *
 * Random floating-point numbers are from -1 to 1, random integers from 0 to 1023 (uint8: to 255), so that kernels can
 * use them as small indices. Each element depends only on the seed and its index.
 */
#include "launch.h"

#include "half.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} numbers[GS_SCALARS] = {[GS_FLOAT32] = {"float32", 4}, [GS_FLOAT64] = {"float64", 8},  [GS_INT32] = {"int32", 4},
                         [GS_UINT32] = {"uint32", 4},   [GS_INT64] = {"int64", 8},      [GS_UINT8] = {"uint8", 1},
                         [GS_FLOAT16] = {"float16", 2}, [GS_BFLOAT16] = {"bfloat16", 2}};

size_t gs_scalar_bytes(gs_scalar type) {
    return numbers[type].bytes;
}

bool gs_scalar_is_real(gs_scalar type) {
    return type == GS_FLOAT32 || type == GS_FLOAT64 || type == GS_FLOAT16 || type == GS_BFLOAT16;
}

/* ---- numbers ---- */

static void put_real(gs_scalar type, double value, void *at) {
    float single = (float)value;
    uint16_t half = gs_half_of(single), bfloat = gs_bfloat_of(single);
    int64_t whole = gs_scalar_is_real(type) ? 0 : (int64_t)value;
    int32_t word = (int32_t)whole;
    uint8_t byte = (uint8_t)whole;
    const void *const from[GS_SCALARS] = {
        [GS_FLOAT32] = &single, [GS_FLOAT64] = &value, [GS_INT32] = &word,   [GS_UINT32] = &word,
        [GS_INT64] = &whole,    [GS_UINT8] = &byte,    [GS_FLOAT16] = &half, [GS_BFLOAT16] = &bfloat};
    memcpy(at, from[type], numbers[type].bytes);
}

static void put_whole(gs_scalar type, int64_t value, void *at) {
    if (gs_scalar_is_real(type)) {
        put_real(type, (double)value, at);
        return;
    }
    int32_t word = (int32_t)value;
    uint8_t byte = (uint8_t)value;
    const void *from = type == GS_INT64 ? (const void *)&value : type == GS_UINT8 ? (const void *)&byte : &word;
    memcpy(at, from, numbers[type].bytes);
}

double gs_scalar_value(gs_scalar type, const void *data, size_t index) {
    union {
        float f32;
        double f64;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint8_t u8;
        uint16_t f16, bf16;
    } value;
    memcpy(&value, (const char *)data + index * numbers[type].bytes, numbers[type].bytes);
    switch (type) {
    case GS_FLOAT32:
        return value.f32;
    case GS_FLOAT64:
        return value.f64;
    case GS_INT32:
        return value.i32;
    case GS_UINT32:
        return value.u32;
    case GS_INT64:
        return (double)value.i64;
    case GS_UINT8:
        return value.u8;
    case GS_BFLOAT16:
        return gs_bfloat_to(value.bf16);
    default:
        return gs_half_to(value.f16);
    }
}

void gs_scalar_put(gs_scalar type, double value, void *data, size_t index) {
    put_real(type, value, (char *)data + index * numbers[type].bytes);
}

/* Only the same infinity is close to an infinity, and a NaN to a NaN. */
static bool is_close(double a, double b, double tolerance) {
    if (!isfinite(a) || !isfinite(b))
        return a == b || (isnan(a) && isnan(b));
    return fabs(a - b) <= tolerance * fmax(1, fabs(a));
}

size_t gs_scalars_differ(gs_scalar type, const void *first, const void *second, size_t count, double tolerance) {
    size_t bytes = numbers[type].bytes;
    const char *a = first, *b = second;
    if (memcmp(a, b, count * bytes) == 0)
        return count;
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i * bytes, b + i * bytes, bytes) != 0 &&
            (!gs_scalar_is_real(type) || tolerance <= 0 ||
             !is_close(gs_scalar_value(type, a, i), gs_scalar_value(type, b, i), tolerance)))
            return i;
    return count;
}

static void fill_random(const gs_launch_argument *argument, int64_t index, void *at) {
    gs_random random = gs_random_at((uint64_t)argument->seed, (uint64_t)index);
    if (gs_scalar_is_real(argument->type))
        put_real(argument->type, (double)(gs_random_next(&random) >> 11) / 4503599627370496.0 - 1.0, at);
    else
        put_whole(argument->type, gs_random_from(&random, 0, 1023), at);
}

void gs_launch_fill(const gs_launch_argument *argument, void *data) {
    size_t bytes = numbers[argument->type].bytes;
    if (argument->fill == GS_FILL_ZERO)
        memset(data, 0, (size_t)argument->count * bytes);
    for (int64_t i = 0; i < argument->count && argument->fill != GS_FILL_ZERO; i++) {
        void *at = (char *)data + (size_t)i * bytes;
        if (argument->fill == GS_FILL_INDEX)
            put_whole(argument->type, i, at);
        else
            fill_random(argument, i, at);
    }
}

/* ---- reading ---- */

static gs_code read_name(const gs_json *json, const gs_step *at, const char *const *names, size_t count, int *found,
                         gs_error *error) {
    const char *text = json_string_value(at->value);
    gs_text list = {0};
    for (size_t i = 0; i < count; i++) {
        gs_text_add(&list, "%s%s", i ? ", " : "", names[i]);
        if (text && strcmp(text, names[i]) == 0) {
            *found = (int)i;
            gs_text_free(&list);
            return GS_OK;
        }
    }
    gs_code code = gs_json_fail(json, at, false, error, "expected one of: %s", list.data ? list.data : "");
    gs_text_free(&list);
    return code;
}

static gs_code read_buffer(const gs_json *json, const gs_step *at, gs_launch_argument *argument, gs_error *error) {
    static const gs_field fields[] = {
        {.key = "buffer", .type = GS_FIELD_OTHER, .required = true},
        {.key = "count",
         .type = GS_FIELD_INT64,
         .required = true,
         .offset = offsetof(gs_launch_argument, count),
         .least = 0,
         .most = (int64_t)1 << 32},
        {.key = "fill", .type = GS_FIELD_OTHER},
        {.key = "seed", .type = GS_FIELD_INT64, .offset = offsetof(gs_launch_argument, seed), .most = INT64_MAX}};
    static const char *const fills[] = {"random", "zero", "index"};
    const char *types[GS_SCALARS];
    int type = 0, fill = GS_FILL_ZERO;
    for (int i = 0; i < GS_SCALARS; i++)
        types[i] = numbers[i].name;
    *argument = (gs_launch_argument){.is_buffer = true};
    gs_code code = gs_json_object(json, at, fields, GS_COUNT(fields), argument, error);
    gs_step buffer = gs_step_key(at, "buffer"), filling = gs_step_key(at, "fill");
    if (code == GS_OK)
        code = read_name(json, &buffer, types, GS_SCALARS, &type, error);
    if (code == GS_OK && filling.value)
        code = read_name(json, &filling, fills, GS_COUNT(fills), &fill, error);
    argument->type = (gs_scalar)type;
    argument->fill = (gs_fill)fill;
    return code;
}

static gs_code read_value(const gs_json *json, const gs_step *at, gs_launch_argument *argument, gs_error *error) {
    *argument = (gs_launch_argument){0};
    for (int i = 0; i < GS_SCALARS; i++) {
        gs_step value = gs_step_key(at, numbers[i].name);
        bool is_real = gs_scalar_is_real((gs_scalar)i);
        int64_t least = i == GS_UINT8 || i == GS_UINT32 ? 0
                        : i == GS_INT32                 ? INT32_MIN
                                                        : INT64_MIN,
                whole = 0,
                most = i == GS_UINT8    ? 255
                       : i == GS_UINT32 ? UINT32_MAX
                       : i == GS_INT32  ? INT32_MAX
                                        : INT64_MAX;
        if (!value.value)
            continue;
        if (json_object_size(at->value) != 1)
            return gs_json_fail(json, at, false, error, "a value must have one key, its type");
        argument->type = (gs_scalar)i;
        if (is_real && json_is_number(value.value)) {
            put_real(argument->type, json_number_value(value.value), argument->value);
            return GS_OK;
        }
        if (is_real)
            return gs_json_fail(json, &value, false, error, "expected a number");
        gs_code code = gs_json_int(json, &value, least, most, &whole, error);
        put_whole(argument->type, whole, argument->value);
        return code;
    }
    return gs_json_fail(
        json, at, false, error,
        "an argument must be {\"buffer\": TYPE, \"count\": N} or {TYPE: VALUE}, e.g. {\"int32\": 4096}");
}

static gs_code read_arguments(const gs_json *json, const gs_step *root, gs_launch_file *launch, gs_error *error) {
    gs_step list = gs_step_key(root, "arguments");
    if (!json_is_array(list.value))
        return gs_json_fail(json, &list, false, error, "expected a list of arguments");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        gs_step at = gs_step_index(&list, i);
        if (!GS_RESERVE(&launch->arguments, 1))
            return gs_fail_memory(error);
        gs_launch_argument *argument = &launch->arguments.data[launch->arguments.count++];
        if (!json_is_object(at.value))
            return gs_json_fail(json, &at, false, error, "an argument must be an object");
        gs_code code = json_object_get(at.value, "buffer") ? read_buffer(json, &at, argument, error)
                                                           : read_value(json, &at, argument, error);
        if (code != GS_OK)
            return code;
    }
    return GS_OK;
}

static gs_code read_three(const gs_json *json, const gs_step *root, const char *key, int64_t least, uint32_t *into,
                          gs_error *error) {
    gs_step list = gs_step_key(root, key);
    if (!json_is_array(list.value) || json_array_size(list.value) != 3)
        return gs_json_fail(json, &list, false, error, "expected [x, y, z]");
    for (size_t i = 0; i < 3; i++) {
        gs_step at = gs_step_index(&list, i);
        int64_t value = 0, most = least ? 1024 : INT32_MAX;
        gs_code code = gs_json_int(json, &at, least, most, &value, error);
        if (code != GS_OK)
            return code;
        if (i && value > 65535)
            return gs_json_fail(json, &at, false, error,
                                "a grid has at most 65535 blocks in y and in z (2147483647 in x), not %lld",
                                (long long)value);
        into[i] = (uint32_t)value;
    }
    return GS_OK;
}

static gs_code read_launch(const gs_json *json, gs_launch_file *launch, gs_error *error) {
    static const gs_field fields[] = {{.key = "schema", .type = GS_FIELD_OTHER},
                                      {.key = "grid", .type = GS_FIELD_OTHER, .required = true},
                                      {.key = "block", .type = GS_FIELD_OTHER, .required = true},
                                      {.key = "arguments", .type = GS_FIELD_OTHER, .required = true},
                                      {.key = "shared_bytes",
                                       .type = GS_FIELD_INT64,
                                       .offset = offsetof(gs_launch_file, shared_bytes),
                                       .least = 0,
                                       .most = 1 << 20}};
    gs_step root = gs_step_root(json);
    gs_code code = gs_json_schema(json, &root, "gridsmith.launch/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, fields, GS_COUNT(fields), launch, error);
    if (code == GS_OK)
        code = read_three(json, &root, "grid", 0, launch->grid, error);
    if (code == GS_OK)
        code = read_three(json, &root, "block", 1, launch->block, error);
    gs_step block = gs_step_key(&root, "block");
    if (code == GS_OK && (uint64_t)launch->block[0] * launch->block[1] * launch->block[2] > 1024)
        code = gs_json_fail(json, &block, false, error, "a block must have at most 1024 threads");
    if (code == GS_OK && launch->block[2] > 64)
        code = gs_json_fail(json, &block, false, error, "a block must have at most 64 layers (z)");
    return code == GS_OK ? read_arguments(json, &root, launch, error) : code;
}

gs_launch_file *gs_launch_read(gs_input *input, gs_error *error) {
    gs_json json = {0};
    gs_launch_file *launch = calloc(1, sizeof *launch);
    gs_code code = launch ? gs_json_next(input, &json, error) : gs_fail_memory(error);
    if (code == GS_OK && !json.root)
        code = gs_fail(error, GS_E_SYNTAX, "the launch is empty");
    if (code == GS_OK)
        code = read_launch(&json, launch, error);
    gs_json_free(&json);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    if (code == GS_OK)
        return launch;
    gs_launch_free(launch);
    return NULL;
}

gs_launch_file *gs_launch_open(const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_launch_file *launch = input ? gs_launch_read(input, error) : NULL;
    if (input && !launch)
        gs_error_name_file(error, gs_input_name(path));
    gs_input_close(input);
    return launch;
}

void gs_launch_free(gs_launch_file *launch) {
    if (launch)
        free(launch->arguments.data);
    free(launch);
}

/* ---- access ---- */

gs_launch_outline gs_launch_outline_of(const gs_launch_file *launch) {
    gs_launch_outline outline = {.shared_bytes = (size_t)launch->shared_bytes, .arguments = launch->arguments.count};
    memcpy(outline.grid, launch->grid, sizeof outline.grid);
    memcpy(outline.block, launch->block, sizeof outline.block);
    return outline;
}

gs_launch_part gs_launch_part_at(const gs_launch_file *launch, size_t argument) {
    const gs_launch_argument *at = &launch->arguments.data[argument];
    gs_launch_part part = {.is_buffer = at->is_buffer, .type = at->type, .count = (size_t)at->count};
    memcpy(part.value, at->value, sizeof part.value);
    return part;
}

void gs_launch_part_fill(const gs_launch_file *launch, size_t argument, void *data) {
    gs_launch_fill(&launch->arguments.data[argument], data);
}
