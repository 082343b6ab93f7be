/*
 * gpu.c: reading and writing a description of a GPU (schema gridsmith.gpu/1).
 *
 * The descriptions in gpus/ are compiled into the library as they are, byte for byte (gs_builtin_gpus is made from them
 * by the build), so a name works wherever the library does; a path reads the same format from a file.
 */
#include "gpu.h"
#include "builtin.h"

#include <stdlib.h>
#include <string.h>

static const gs_field top_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"name", GS_FIELD_NAME, true, offsetof(gs_gpu, name), 0, 0},
    {"title", GS_FIELD_NAME, false, offsetof(gs_gpu, title), 0, 0},
    {"architecture", GS_FIELD_NAME, false, offsetof(gs_gpu, architecture), 0, 0},
    {"compute_capability", GS_FIELD_NAME, false, offsetof(gs_gpu, compute_capability), 0, 0},
    {"uuid", GS_FIELD_NAME, false, offsetof(gs_gpu, uuid), 0, 0},
    {"source", GS_FIELD_NAME, false, offsetof(gs_gpu, source), 0, 0},
    {"topology", GS_FIELD_OTHER, true, 0, 0, 0},
    {"limits", GS_FIELD_OTHER, true, 0, 0, 0},
    {"mechanisms", GS_FIELD_OTHER, false, 0, 0, 0},
};

static const gs_field topology_fields[] = {
    {"sms", GS_FIELD_INT32, true, offsetof(gs_gpu, sms), 1, GS_MAX_SMS},
    {"sms_per_tpc", GS_FIELD_INT32, true, offsetof(gs_gpu, sms_per_tpc), 1, GS_MAX_SMS},
    {"gpcs", GS_FIELD_INT32, false, offsetof(gs_gpu, gpcs), 1, GS_MAX_SMS},
    {"gpc_sms", GS_FIELD_OTHER, false, 0, 0, 0},
};

#define LIMIT(name, least, most)                                                                                       \
    { #name, GS_FIELD_INT32, true, offsetof(gs_limits, name), least, most }
static const gs_field limit_fields[] = {
    LIMIT(blocks_per_sm, 1, GS_MAX_BLOCKS_PER_SM),
    LIMIT(threads_per_sm, 1, 65536),
    LIMIT(threads_per_block, 1, 65536),
    LIMIT(warp_threads, 1, 1024),
    LIMIT(partitions_per_sm, 1, GS_MAX_PARTITIONS),
    LIMIT(registers_per_sm, 1, 1 << 24),
    LIMIT(registers_per_thread, 1, 65536),
    LIMIT(register_granularity, 1, 65536),
    LIMIT(shared_per_block_bytes, 0, 1 << 24),
    LIMIT(shared_granularity_bytes, 1, 65536),
    LIMIT(shared_reserved_bytes, 0, 65536),
    {"shared_configurations_bytes", GS_FIELD_OTHER, true, 0, 0, 0},
};

/* The SMs of one GPC, after those that are there. */
static gs_code read_gpc(const gs_json *json, const gs_step *gpc, gs_gpu *gpu, bool *seen, gs_error *error) {
    gs_gpc_lists *lists = &gpu->gpc_sms;
    int32_t end = lists->count ? lists->ends[lists->count - 1] : 0;
    size_t count = json_array_size(gpc->value);
    if (!count)
        return gs_json_fail(json, gpc, false, error, "a GPC must be a list of its SMs");
    for (size_t i = 0; i < count; i++) {
        gs_step entry = gs_step_index(gpc, i);
        int64_t sm;
        gs_code code = gs_json_int(json, &entry, 0, gpu->sms - 1, &sm, error);
        if (code != GS_OK)
            return code;
        if (seen[sm])
            return gs_json_fail(json, &entry, false, error, "SM %d is twice in \"gpc_sms\"", (int)sm);
        seen[sm] = true;
        lists->sms[end++] = (int16_t)sm;
    }
    lists->ends[lists->count++] = end;
    return GS_OK;
}

static gs_code read_gpcs(const gs_json *json, const gs_step *topology, gs_gpu *gpu, gs_error *error) {
    gs_step list = gs_step_key(topology, "gpc_sms");
    size_t count = json_array_size(list.value);
    if (!list.value)
        return GS_OK;
    if (count < 1 || count > (size_t)gpu->sms)
        return gs_json_fail(json, &list, false, error, "\"gpc_sms\" must be a list of 1 to %d lists of SMs", gpu->sms);
    if (gpu->gpcs && (size_t)gpu->gpcs != count)
        return gs_json_fail(json, &list, false, error, "\"gpc_sms\" has %zu GPCs, but \"gpcs\" is %d", count,
                            gpu->gpcs);
    gpu->gpcs = (int32_t)count;
    gpu->gpc_sms.sms = calloc((size_t)gpu->sms, sizeof *gpu->gpc_sms.sms);
    gpu->gpc_sms.ends = calloc(count, sizeof *gpu->gpc_sms.ends);
    bool *seen = calloc((size_t)gpu->sms, sizeof *seen);
    gs_code code = gpu->gpc_sms.sms && gpu->gpc_sms.ends && seen ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step gpc = gs_step_index(&list, i);
        code = read_gpc(json, &gpc, gpu, seen, error);
    }
    free(seen);
    return code;
}

static gs_code read_configurations(const gs_json *json, const gs_step *limits, gs_gpu *gpu, gs_error *error) {
    gs_step list = gs_step_key(limits, "shared_configurations_bytes");
    size_t count = json_array_size(list.value);
    if (count < 1 || count > GS_MAX_CONFIGS)
        return gs_json_fail(json, &list, false, error, "\"%s\" must be a list of 1 to %d sizes", list.key,
                            GS_MAX_CONFIGS);
    int64_t before = -1;
    for (size_t i = 0; i < count; i++) {
        gs_step entry = gs_step_index(&list, i);
        int64_t bytes;
        gs_code code = gs_json_int(json, &entry, 0, 1 << 24, &bytes, error);
        if (code != GS_OK)
            return code;
        if (bytes <= before)
            return gs_json_fail(json, &entry, false, error, "shared-memory configurations must ascend");
        if (bytes % gpu->limits.shared_granularity_bytes)
            return gs_json_fail(json, &entry, false, error, "a configuration must be a multiple of %d bytes",
                                gpu->limits.shared_granularity_bytes);
        gpu->limits.config_bytes[i] = (int32_t)bytes;
        before = bytes;
    }
    gpu->limits.configs = (int32_t)count;
    gpu->largest_config_bytes = (int32_t)before;
    return GS_OK;
}

/* Limits that only make sense together. Sizes in granules must fit 16 bits (gs_piece). */
static gs_code check_limits(const gs_json *json, const gs_step *at, gs_gpu *gpu, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    int32_t warps = limits->threads_per_sm / limits->warp_threads;
    gpu->warps_per_partition = warps / limits->partitions_per_sm;
    gpu->registers_per_partition = limits->registers_per_sm / limits->partitions_per_sm / limits->register_granularity;
    if (gpu->warps_per_partition < 1 || gpu->warps_per_partition > GS_MAX_WARPS_PER_PARTITION ||
        warps % limits->partitions_per_sm || limits->threads_per_sm % limits->warp_threads)
        return gs_json_fail(json, at, false, error,
                            "threads_per_sm must be 1 to %d whole warps for each of the %d partitions",
                            GS_MAX_WARPS_PER_PARTITION, limits->partitions_per_sm);
    if (gpu->registers_per_partition < 1 || gpu->registers_per_partition > UINT16_MAX)
        return gs_json_fail(json, at, false, error,
                            "registers_per_sm over partitions_per_sm must be 1 to 65535 times register_granularity");
    if (gpu->largest_config_bytes / limits->shared_granularity_bytes > UINT16_MAX)
        return gs_json_fail(json, at, false, error,
                            "the largest shared-memory configuration is over 65535 times the granularity");
    return GS_OK;
}

static gs_code read_order(const gs_json *json, const gs_step *list, gs_gpu *gpu, gs_error *error) {
    size_t count = json_array_size(list->value);
    if (count != (size_t)gpu->sms)
        return gs_json_fail(json, list, false, error, "a tie order must name each of the %d SMs once", gpu->sms);
    gpu->listed_order = malloc(count * sizeof *gpu->listed_order);
    bool *seen = calloc(count, sizeof *seen);
    gs_code code = gpu->listed_order && seen ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(list, i);
        int64_t sm;
        code = gs_json_int(json, &entry, 0, gpu->sms - 1, &sm, error);
        if (code == GS_OK && seen[sm])
            code = gs_json_fail(json, &entry, false, error, "SM %d is twice in the tie order", (int)sm);
        if (code == GS_OK) {
            seen[sm] = true;
            gpu->listed_order[i] = (int16_t)sm;
        }
    }
    free(seen);
    gpu->mechanisms.tie_order = GS_TIES_LISTED;
    return code;
}

static gs_code read_mechanisms(const gs_json *json, const gs_step *at, gs_gpu *gpu, gs_error *error) {
    const char *key;
    json_t *value;
    if (at->value && !json_is_object(at->value))
        return gs_json_fail(json, at, false, error, "\"mechanisms\" must be an object");
    json_object_foreach(at->value, key, value) {
        gs_step step = gs_step_key(at, key);
        if (strcmp(key, "tie_order") == 0 && json_is_array(value)) {
            gs_code code = read_order(json, &step, gpu, error);
            if (code != GS_OK)
                return code;
            continue;
        }
        if (!json_is_string(value))
            return gs_json_fail(json, &step, false, error, "\"%.60s\" must be a string", key);
        gs_error problem;
        if (gs_gpu_set(gpu, key, json_string_value(value), &problem) != GS_OK)
            return gs_json_fail(json, &step, gs_mechanism_find(key) == NULL, error, "%s", problem.message);
    }
    return GS_OK;
}

static gs_code read_description(const gs_json *json, gs_gpu *gpu, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_step topology = gs_step_key(&root, "topology");
    gs_step limits = gs_step_key(&root, "limits");
    gs_step mechanisms = gs_step_key(&root, "mechanisms");
    gs_code code = gs_json_schema(json, &root, "gridsmith.gpu/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, top_fields, GS_COUNT(top_fields), gpu, error);
    if (code == GS_OK)
        code = gs_json_object(json, &topology, topology_fields, GS_COUNT(topology_fields), gpu, error);
    if (code == GS_OK)
        code = read_gpcs(json, &topology, gpu, error);
    if (code == GS_OK)
        code = gs_json_object(json, &limits, limit_fields, GS_COUNT(limit_fields), &gpu->limits, error);
    if (code == GS_OK)
        code = read_configurations(json, &limits, gpu, error);
    if (code == GS_OK)
        code = check_limits(json, &limits, gpu, error);
    if (code == GS_OK)
        code = read_mechanisms(json, &mechanisms, gpu, error);
    return code;
}

gs_gpu *gs_gpu_read(gs_input *input, gs_error *error) {
    gs_error unused;
    error = error ? error : &unused;
    gs_json json, more = {0};
    if (gs_json_next(input, &json, error) != GS_OK)
        return NULL;
    if (!json.root) {
        gs_fail(error, GS_E_SYNTAX, "the description of the GPU is empty");
        return NULL;
    }
    gs_gpu *gpu = calloc(1, sizeof *gpu);
    gs_code code = gpu ? read_description(&json, gpu, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_json_next(input, &more, error);
    if (code == GS_OK && more.root) {
        gs_step root = gs_step_root(&more);
        code = gs_json_fail(&more, &root, false, error, "a description is one JSON object, and here begins a second");
    }
    gs_json_free(&json);
    gs_json_free(&more);
    if (code == GS_OK)
        return gpu;
    gs_gpu_free(gpu);
    return NULL;
}

gs_gpu *gs_gpu_copy(const gs_gpu *gpu, gs_error *error) {
    gs_text text = {0};
    gs_gpu_text(gpu, &text);
    gs_input *input = text.failed ? NULL : gs_input_memory(gpu->name, text.data, text.count, error);
    gs_gpu *copy = input ? gs_gpu_read(input, error) : NULL;
    if (text.failed)
        gs_fail_memory(error);
    gs_input_close(input);
    gs_text_free(&text);
    return copy;
}

static const gs_builtin_gpu *builtin_find(const char *name) {
    for (size_t i = 0; i < gs_builtin_gpu_count; i++)
        if (strcmp(gs_builtin_gpus[i].name, name) == 0)
            return &gs_builtin_gpus[i];
    return NULL;
}

static bool is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

gs_gpu *gs_gpu_open(const char *name, gs_error *error) {
    const gs_builtin_gpu *builtin = builtin_find(name);
    gs_input *input = NULL;
    if (builtin) {
        input = gs_input_memory(name, (const char *)builtin->bytes, builtin->count, error);
    } else if (is_path(name)) {
        input = gs_input_open(name, error);
    } else {
        gs_text known = {0};
        for (size_t i = 0; i < gs_builtin_gpu_count; i++)
            gs_text_add(&known, "%s%s", i ? ", " : "", gs_builtin_gpus[i].name);
        gs_fail(error, GS_E_USAGE, "no GPU is called \"%.60s\"; known: %s; or give the path of a description", name,
                known.data ? known.data : "");
        gs_text_free(&known);
    }
    gs_gpu *gpu = input ? gs_gpu_read(input, error) : NULL;
    gs_input_close(input);
    return gpu;
}

void gs_gpu_free(gs_gpu *gpu) {
    if (!gpu)
        return;
    free(gpu->name);
    free(gpu->title);
    free(gpu->architecture);
    free(gpu->compute_capability);
    free(gpu->uuid);
    free(gpu->source);
    free(gpu->gpc_sms.sms);
    free(gpu->gpc_sms.ends);
    free(gpu->listed_order);
    free(gpu);
}

const char *gs_gpu_builtin(size_t index) {
    return index < gs_builtin_gpu_count ? gs_builtin_gpus[index].name : NULL;
}

const char *gs_gpu_name(const gs_gpu *gpu) {
    return gpu->name;
}

int gs_gpu_sms(const gs_gpu *gpu) {
    return gpu->sms;
}

void gs_gpu_tie_order(const gs_gpu *gpu, int16_t *order) {
    int32_t step = gpu->mechanisms.tie_order == GS_TIES_EVEN_ODD ? 2 : 1, count = 0;
    for (int32_t from = 0; from < step; from++)
        for (int32_t sm = from; sm < gpu->sms; sm += step)
            order[count++] = (int16_t)sm;
    if (gpu->mechanisms.tie_order == GS_TIES_LISTED)
        memcpy(order, gpu->listed_order, (size_t)gpu->sms * sizeof *order);
}

int32_t gs_gpu_config_for(const gs_gpu *gpu, int64_t bytes) {
    int32_t i = 0;
    while (i < gpu->limits.configs - 1 && gpu->limits.config_bytes[i] < bytes)
        i++;
    return gpu->limits.config_bytes[i];
}

/* ---- writing ---- */

static void put_fields(gs_text *text, const gs_field *fields, size_t count, const void *from) {
    size_t put = 0;
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)from + fields[i].offset;
        int32_t number = fields[i].type == GS_FIELD_INT32 ? *(const int32_t *)(const void *)at : 0;
        const char *name = fields[i].type == GS_FIELD_NAME ? *(char *const *)(const void *)at : NULL;
        if (fields[i].type == GS_FIELD_OTHER || (!fields[i].required && !number && !name))
            continue;
        gs_text_add(text, "%s\"%s\":", put++ ? "," : "", fields[i].key);
        if (name)
            gs_text_put_json(text, name);
        else
            gs_text_put_int(text, number);
    }
}

static void put_gpcs(gs_text *text, const gs_gpc_lists *lists) {
    int32_t at = 0;
    for (int32_t gpc = 0; gpc < lists->count; gpc++) {
        gs_text_add(text, gpc ? ",[" : ",\"gpc_sms\":[[");
        for (int32_t from = at; at < lists->ends[gpc]; at++)
            gs_text_add(text, "%s%d", at > from ? "," : "", lists->sms[at]);
        gs_text_put(text, "]", 1);
    }
    if (lists->count)
        gs_text_put(text, "]", 1);
}

static void put_mechanisms(gs_text *text, const gs_gpu *gpu) {
    gs_mechanisms mechanisms = gpu->mechanisms;
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        int value = *gs_mechanism_value(&mechanisms, mechanism);
        gs_text_add(text, "%s\"%s\":", i ? "," : "", mechanism->name);
        if (mechanism->offset != offsetof(gs_mechanisms, tie_order) || value != GS_TIES_LISTED) {
            gs_text_put_json(text, mechanism->values[value]);
            continue;
        }
        for (int32_t sm = 0; sm < gpu->sms; sm++)
            gs_text_add(text, "%s%d", sm ? "," : "[", gpu->listed_order[sm]);
        gs_text_put(text, "]", 1);
    }
}

void gs_gpu_text(const gs_gpu *gpu, gs_text *text) {
    gs_text_add(text, "{\"schema\":\"gridsmith.gpu/1\",");
    put_fields(text, top_fields, GS_COUNT(top_fields), gpu);
    gs_text_add(text, ",\"topology\":{");
    put_fields(text, topology_fields, GS_COUNT(topology_fields), gpu);
    put_gpcs(text, &gpu->gpc_sms);
    gs_text_add(text, "},\"limits\":{");
    put_fields(text, limit_fields, GS_COUNT(limit_fields), &gpu->limits);
    gs_text_add(text, ",\"shared_configurations_bytes\":");
    for (int32_t i = 0; i < gpu->limits.configs; i++)
        gs_text_add(text, "%s%d", i ? "," : "[", gpu->limits.config_bytes[i]);
    gs_text_add(text, "]},\"mechanisms\":{");
    put_mechanisms(text, gpu);
    gs_text_add(text, "}}");
}
