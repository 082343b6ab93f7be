/*
 * gpu.c: reading and writing a description of a GPU (schema gridsmith.gpu/1).
 */
#include "gpu.h"

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
    {"assumed", GS_FIELD_NAME, false, offsetof(gs_gpu, assumed), 0, 0},
    {"topology", GS_FIELD_OTHER, true, 0, 0, 0},
    {"limits", GS_FIELD_OTHER, true, 0, 0, 0},
    {"mechanisms", GS_FIELD_OTHER, false, 0, 0, 0},
    {"grants", GS_FIELD_OTHER, false, 0, 0, 0},
    {"graph_join", GS_FIELD_OTHER, false, 0, 0, 0},
    {"graph_memory", GS_FIELD_OTHER, false, 0, 0, 0},
    {"machine", GS_FIELD_OTHER, false, 0, 0, 0},
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
    {"kernels_per_gpu", GS_FIELD_INT32, false, offsetof(gs_limits, kernels_per_gpu), 1, 65536},
    {"shared_configurations_bytes", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field join_fields[] = {
    {"threads", GS_FIELD_INT32, true, offsetof(gs_join, threads), 1, 65536},
    {"registers", GS_FIELD_INT32, true, offsetof(gs_join, registers), 1, 65536},
    {"most_children", GS_FIELD_INT32, false, offsetof(gs_join, most_children), 1, 65536},
};

static const gs_field memory_fields[] = {
    {"memset", GS_FIELD_OTHER, true, 0, 0, 0},
    {"copy", GS_FIELD_OTHER, true, 0, 0, 0},
};

#define MEMORY(name, is_required)                                                                                      \
    { #name, GS_FIELD_INT32, is_required, offsetof(gs_memory_kernel, name), 1, 1 << 30 }
static const gs_field memory_kernel_fields[] = {
    MEMORY(threads, true),
    MEMORY(registers, true),
    MEMORY(least_bytes, true),
    MEMORY(block_bytes, true),
    MEMORY(large_bytes, false),
    MEMORY(large_block_bytes, false),
    {"whole_blocks", GS_FIELD_BOOL, false, offsetof(gs_memory_kernel, whole_blocks), 0, 0},
};

static const gs_field grant_fields[] = {
    {"first", GS_FIELD_OTHER, true, 0, 0, 0},
    {"others", GS_FIELD_OTHER, true, 0, 0, 0},
    {"between_rounds", GS_FIELD_INT32, true, offsetof(gs_grants, between_rounds), 1, 1000},
    {"before_cut", GS_FIELD_OTHER, true, 0, 0, 0},
    {"cluster_first", GS_FIELD_OTHER, false, 0, 0, 0},
    {"cluster_blocks_per_sm", GS_FIELD_INT32, false, offsetof(gs_grants, cluster_blocks_per_sm), 1,
     GS_MAX_BLOCKS_PER_SM},
};

/* ---- groups of SMs ---- */

static bool groups_allocate(gs_sm_groups *groups, int32_t sms) {
    if (!groups->sms)
        groups->sms = calloc((size_t)sms, sizeof *groups->sms);
    if (!groups->ends)
        groups->ends = calloc((size_t)sms, sizeof *groups->ends);
    return groups->sms && groups->ends;
}

static bool groups_have(const gs_sm_groups *groups, int32_t end, int64_t sm) {
    for (int32_t i = 0; i < end; i++)
        if (groups->sms[i] == sm)
            return true;
    return false;
}

/* Appends the SMs of one group. */
static gs_code read_group(const gs_json *json, const gs_step *list, const gs_gpu *gpu, gs_sm_groups *groups,
                          gs_error *error) {
    int32_t end = groups->count ? groups->ends[groups->count - 1] : 0;
    size_t count = json_array_size(list->value);
    if (!count)
        return gs_json_fail(json, list, false, error, "a group must be a list of its SMs");
    for (size_t i = 0; i < count; i++) {
        gs_step entry = gs_step_index(list, i);
        int64_t sm;
        gs_code code = gs_json_int(json, &entry, 0, gpu->sms - 1, &sm, error);
        if (code != GS_OK)
            return code;
        if (groups_have(groups, end, sm))
            return gs_json_fail(json, &entry, false, error, "SM %d occurs twice in the groups", (int)sm);
        groups->sms[end++] = (int16_t)sm;
    }
    groups->ends[groups->count++] = end;
    return GS_OK;
}

/* Appends groups from a list of at least `least` lists of SMs. */
static gs_code read_groups(const gs_json *json, const gs_step *list, size_t least, const gs_gpu *gpu,
                           gs_sm_groups *groups, gs_error *error) {
    size_t count = json_array_size(list->value);
    if (!json_is_array(list->value) || count < least || count > (size_t)gpu->sms)
        return gs_json_fail(json, list, false, error, "\"%s\" must be a list of %zu to %d lists of SMs", list->key,
                            least, gpu->sms);
    gs_code code = groups_allocate(groups, gpu->sms) ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step group = gs_step_index(list, i);
        code = read_group(json, &group, gpu, groups, error);
    }
    return code;
}

static gs_code read_gpcs(const gs_json *json, const gs_step *topology, gs_gpu *gpu, gs_error *error) {
    gs_step list = gs_step_key(topology, "gpc_sms");
    if (!list.value)
        return GS_OK;
    gs_code code = read_groups(json, &list, 1, gpu, &gpu->gpc_sms, error);
    if (code == GS_OK && gpu->gpcs && gpu->gpcs != gpu->gpc_sms.count)
        code = gs_json_fail(json, &list, false, error, "\"gpc_sms\" has %d GPCs, but \"gpcs\" is %d",
                            gpu->gpc_sms.count, gpu->gpcs);
    gpu->gpcs = gpu->gpc_sms.count;
    return code;
}

/* ---- grants ---- */

static gs_code read_before_cut(const gs_json *json, const gs_step *grants, gs_gpu *gpu, gs_error *error) {
    gs_step list = gs_step_key(grants, "before_cut");
    if (json_array_size(list.value) != (size_t)gpu->sms)
        return gs_json_fail(json, &list, false, error, "\"before_cut\" must have a number for each of the %d SMs",
                            gpu->sms);
    gpu->grants.before_cut = calloc((size_t)gpu->sms, sizeof *gpu->grants.before_cut);
    if (!gpu->grants.before_cut)
        return gs_fail_memory(error);
    for (size_t i = 0; i < (size_t)gpu->sms; i++) {
        gs_step entry = gs_step_index(&list, i);
        int64_t grants_before;
        gs_code code = gs_json_int(json, &entry, 1, 10000, &grants_before, error);
        if (code != GS_OK)
            return code;
        gpu->grants.before_cut[i] = (int16_t)grants_before;
    }
    return GS_OK;
}

static gs_code check_grants(const gs_json *json, const gs_step *at, const gs_gpu *gpu, gs_error *error) {
    const gs_sm_groups *groups = &gpu->grants.groups;
    if (groups->count > GS_MAX_GRANT_GROUPS || groups->ends[groups->count - 1] != gpu->sms)
        return gs_json_fail(json, at, false, error,
                            "\"first\" and \"others\" must have each of the %d SMs, in at most %d groups", gpu->sms,
                            GS_MAX_GRANT_GROUPS);
    for (int32_t group = 0, at_sm = 0; group < groups->count; group++)
        for (int32_t from = at_sm; at_sm < groups->ends[group]; at_sm++)
            if (at_sm - from >= GS_MAX_GRANT_GROUPS || (at_sm > from && groups->sms[at_sm] < groups->sms[at_sm - 1]))
                return gs_json_fail(json, at, false, error, "a group has at most %d SMs, in ascending order",
                                    GS_MAX_GRANT_GROUPS);
    return GS_OK;
}

/* Whether the groups, from number `from` on, consist of whole TPCs of two SMs. */
static bool are_tpcs(const gs_sm_groups *groups, int32_t from) {
    for (int32_t group = from; group < groups->count; group++) {
        int32_t at = group ? groups->ends[group - 1] : 0;
        for (; at < groups->ends[group]; at += 2)
            if (groups->sms[at] % 2 || at + 1 == groups->ends[group] || groups->sms[at + 1] != groups->sms[at] + 1)
                return false;
    }
    return true;
}

/* Whether the groups of clusters are the first groups, each divided into parts. */
static bool divides_first(const gs_grants *grants) {
    const gs_sm_groups *groups = &grants->groups, *cut = &grants->cluster_first;
    int32_t end = grants->first ? groups->ends[grants->first - 1] : 0, part = 0;
    if (end != (cut->count ? cut->ends[cut->count - 1] : 0))
        return false;
    for (int32_t at = 0; at < end; at++)
        if (groups->sms[at] != cut->sms[at])
            return false;
    for (int32_t group = 0; group < grants->first; group++) {
        while (cut->ends[part] < groups->ends[group])
            part++;
        if (cut->ends[part] != groups->ends[group])
            return false;
    }
    return true;
}

static gs_code check_clusters(const gs_json *json, const gs_step *at, const gs_gpu *gpu, gs_error *error) {
    const gs_grants *grants = &gpu->grants;
    int32_t parts = grants->cluster_first.count, others = grants->groups.count - grants->first;
    if (!divides_first(grants))
        return gs_json_fail(
            json, at, false, error,
            "\"cluster_first\" must have the SMs of \"first\" in the same order, in parts of its groups");
    if (gpu->sms_per_tpc != 2 || !are_tpcs(&grants->cluster_first, 0) || !are_tpcs(&grants->groups, grants->first))
        return gs_json_fail(json, at, false, error, "groups of clusters must be whole TPCs of 2 SMs");
    if (parts + others > GS_MAX_GRANT_GROUPS || parts * grants->first * others > GS_MAX_TURNS)
        return gs_json_fail(json, at, false, error, "too many groups of clusters");
    return GS_OK;
}

/* The keys of clusters are optional, but go together. */
static gs_code read_clusters(const gs_json *json, const gs_step *grants, gs_gpu *gpu, gs_error *error) {
    gs_step list = gs_step_key(grants, "cluster_first");
    if (!list.value != !gpu->grants.cluster_blocks_per_sm)
        return gs_json_fail(json, grants, false, error,
                            "\"cluster_first\" and \"cluster_blocks_per_sm\" must be given together: one is missing");
    if (!list.value)
        return GS_OK;
    gs_code code = read_groups(json, &list, 0, gpu, &gpu->grants.cluster_first, error);
    return code == GS_OK ? check_clusters(json, &list, gpu, error) : code;
}

static gs_code read_grants(const gs_json *json, const gs_step *at, gs_gpu *gpu, gs_error *error) {
    if (!at->value)
        return GS_OK;
    gs_step first = gs_step_key(at, "first"), others = gs_step_key(at, "others");
    gs_code code = gs_json_object(json, at, grant_fields, GS_COUNT(grant_fields), &gpu->grants, error);
    if (code == GS_OK)
        code = read_groups(json, &first, 0, gpu, &gpu->grants.groups, error);
    gpu->grants.first = gpu->grants.groups.count;
    if (code == GS_OK)
        code = read_groups(json, &others, 1, gpu, &gpu->grants.groups, error);
    if (code == GS_OK)
        code = check_grants(json, at, gpu, error);
    if (code == GS_OK)
        code = read_clusters(json, at, gpu, error);
    return code == GS_OK ? read_before_cut(json, at, gpu, error) : code;
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

/* Checks limits against each other. Sizes in granules must fit 16 bits (gs_piece). */
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
            code = gs_json_fail(json, &entry, false, error, "SM %d occurs twice in the tie order", (int)sm);
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

/* The blocks of a kernel of the driver must fit. */
static gs_code check_fits(const gs_json *json, const gs_step *at, const gs_gpu *gpu, int32_t threads, int32_t registers,
                          gs_error *error) {
    if (threads <= gpu->limits.threads_per_block && registers <= gpu->limits.registers_per_thread)
        return GS_OK;
    return gs_json_fail(json, at, false, error, "the blocks of \"%s\" do not fit on this GPU", at->key);
}

static gs_code read_join(const gs_json *json, const gs_step *at, gs_gpu *gpu, gs_error *error) {
    gs_join *join = &gpu->join;
    if (!at->value)
        return GS_OK;
    gs_code code = gs_json_object(json, at, join_fields, GS_COUNT(join_fields), join, error);
    return code == GS_OK ? check_fits(json, at, gpu, join->threads, join->registers, error) : code;
}

static gs_code read_memory_kernel(const gs_json *json, const gs_step *at, const gs_gpu *gpu, gs_memory_kernel *kernel,
                                  gs_error *error) {
    gs_code code = gs_json_object(json, at, memory_kernel_fields, GS_COUNT(memory_kernel_fields), kernel, error);
    if (code == GS_OK && !kernel->large_bytes != !kernel->large_block_bytes)
        code = gs_json_fail(json, at, false, error, "\"large_bytes\" and \"large_block_bytes\" must be given together");
    return code == GS_OK ? check_fits(json, at, gpu, kernel->threads, kernel->registers, error) : code;
}

static gs_code read_memory(const gs_json *json, const gs_step *at, gs_gpu *gpu, gs_error *error) {
    if (!at->value)
        return GS_OK;
    gs_code code = gs_json_object(json, at, memory_fields, GS_COUNT(memory_fields), gpu, error);
    for (size_t i = 0; i < GS_COUNT(memory_fields) && code == GS_OK; i++) {
        gs_step kernel = gs_step_key(at, memory_fields[i].key);
        code = read_memory_kernel(json, &kernel, gpu, &gpu->memory_kernels[i], error);
    }
    return code;
}

static gs_code read_description(const gs_json *json, gs_gpu *gpu, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_step topology = gs_step_key(&root, "topology");
    gs_step limits = gs_step_key(&root, "limits");
    gs_step mechanisms = gs_step_key(&root, "mechanisms");
    gs_step grants = gs_step_key(&root, "grants"), join = gs_step_key(&root, "graph_join");
    gs_step memory = gs_step_key(&root, "graph_memory"), machine = gs_step_key(&root, "machine");
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
        code = read_grants(json, &grants, gpu, error);
    if (code == GS_OK)
        code = read_join(json, &join, gpu, error);
    if (code == GS_OK)
        code = read_memory(json, &memory, gpu, error);
    if (code == GS_OK)
        code = read_mechanisms(json, &mechanisms, gpu, error);
    return code == GS_OK && machine.value ? gs_machine_read(json, &machine, &gpu->machine, error) : code;
}

gs_gpu *gs_gpu_read(gs_input *input, gs_error *error) {
    gs_error unused;
    error = error ? error : &unused;
    gs_json json;
    if (gs_json_next(input, &json, error) != GS_OK)
        return NULL;
    if (!json.root) {
        gs_fail(error, GS_E_SYNTAX, "the description of the GPU is empty");
        return NULL;
    }
    gs_gpu *gpu = calloc(1, sizeof *gpu);
    gs_code code = gpu ? read_description(&json, gpu, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    gs_json_free(&json);
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

void gs_gpu_free(gs_gpu *gpu) {
    if (!gpu)
        return;
    free(gpu->name);
    free(gpu->title);
    free(gpu->architecture);
    free(gpu->compute_capability);
    free(gpu->uuid);
    free(gpu->source);
    free(gpu->assumed);
    free(gpu->gpc_sms.sms);
    free(gpu->gpc_sms.ends);
    free(gpu->grants.groups.sms);
    free(gpu->grants.groups.ends);
    free(gpu->grants.before_cut);
    free(gpu->grants.cluster_first.sms);
    free(gpu->grants.cluster_first.ends);
    free(gpu->listed_order);
    gs_machine_free(gpu->machine);
    free(gpu);
}

const char *gs_gpu_name(const gs_gpu *gpu) {
    return gpu->name;
}

bool gs_gpu_has_clusters(const gs_gpu *gpu) {
    return gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT && gpu->grants.cluster_blocks_per_sm > 0;
}

int gs_gpu_turns(const gs_gpu *gpu) {
    int32_t first = gpu->grants.first, others = gpu->grants.groups.count - first;
    int32_t parts = gpu->grants.cluster_first.count;
    return gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT ? (first ? first : 1) * (parts ? parts : 1) * others : 1;
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

static void write_list(gs_writer *writer, const char *key, const int16_t *numbers, int32_t count) {
    gs_write_array(writer, key);
    for (int32_t i = 0; i < count; i++)
        gs_write_int(writer, NULL, numbers[i]);
    gs_write_end(writer);
}

/* Groups from number `from` to before `to`, as a list of lists. */
static void write_groups(gs_writer *writer, const char *key, const gs_sm_groups *groups, int32_t from, int32_t to) {
    gs_write_array(writer, key);
    for (int32_t group = from; group < to; group++) {
        int32_t begin = group ? groups->ends[group - 1] : 0;
        write_list(writer, NULL, groups->sms + begin, groups->ends[group] - begin);
    }
    gs_write_end(writer);
}

static void write_topology(gs_writer *writer, const gs_gpu *gpu) {
    gs_write_object(writer, "topology");
    gs_write_fields(writer, topology_fields, GS_COUNT(topology_fields), gpu);
    if (gpu->gpc_sms.count)
        write_groups(writer, "gpc_sms", &gpu->gpc_sms, 0, gpu->gpc_sms.count);
    gs_write_end(writer);
}

static void write_limits(gs_writer *writer, const gs_limits *limits) {
    gs_write_object(writer, "limits");
    gs_write_fields(writer, limit_fields, GS_COUNT(limit_fields), limits);
    gs_write_array(writer, "shared_configurations_bytes");
    for (int32_t i = 0; i < limits->configs; i++)
        gs_write_int(writer, NULL, limits->config_bytes[i]);
    gs_write_end(writer);
    gs_write_end(writer);
}

static void write_mechanisms(gs_writer *writer, const gs_gpu *gpu) {
    gs_mechanisms mechanisms = gpu->mechanisms;
    gs_write_object(writer, "mechanisms");
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        int value = *gs_mechanism_value(&mechanisms, mechanism);
        if (mechanism->offset == offsetof(gs_mechanisms, tie_order) && value == GS_TIES_LISTED)
            write_list(writer, mechanism->name, gpu->listed_order, gpu->sms);
        else
            gs_write_string(writer, mechanism->name, mechanism->values[value]);
    }
    gs_write_end(writer);
}

static void write_grants(gs_writer *writer, const gs_gpu *gpu) {
    const gs_grants *grants = &gpu->grants;
    gs_write_object(writer, "grants");
    write_groups(writer, "first", &grants->groups, 0, grants->first);
    write_groups(writer, "others", &grants->groups, grants->first, grants->groups.count);
    gs_write_int(writer, "between_rounds", grants->between_rounds);
    write_list(writer, "before_cut", grants->before_cut, gpu->sms);
    if (grants->cluster_blocks_per_sm) {
        write_groups(writer, "cluster_first", &grants->cluster_first, 0, grants->cluster_first.count);
        gs_write_int(writer, "cluster_blocks_per_sm", grants->cluster_blocks_per_sm);
    }
    gs_write_end(writer);
}

int64_t gs_memory_kernel_blocks(const gs_memory_kernel *kernel, int64_t bytes) {
    if (!kernel->threads || bytes < kernel->least_bytes)
        return 0;
    int64_t of_block =
        kernel->large_bytes && bytes >= kernel->large_bytes ? kernel->large_block_bytes : kernel->block_bytes;
    return gs_max(kernel->whole_blocks ? bytes / of_block : gs_divide_up(bytes, of_block), 1);
}

static void write_memory(gs_writer *writer, const gs_gpu *gpu) {
    gs_write_object(writer, "graph_memory");
    for (size_t i = 0; i < GS_COUNT(memory_fields); i++) {
        gs_write_object(writer, memory_fields[i].key);
        gs_write_fields(writer, memory_kernel_fields, GS_COUNT(memory_kernel_fields), &gpu->memory_kernels[i]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

void gs_gpu_put_assumed(const gs_gpu *gpu, gs_text *text) {
    if (gpu->assumed)
        gs_text_add(text, "%s: %s\n", gpu->name, gpu->assumed);
}

void gs_gpu_text(const gs_gpu *gpu, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.gpu/1");
    gs_write_fields(&writer, top_fields, GS_COUNT(top_fields), gpu);
    write_topology(&writer, gpu);
    write_limits(&writer, &gpu->limits);
    write_mechanisms(&writer, gpu);
    if (gpu->grants.groups.count)
        write_grants(&writer, gpu);
    if (gpu->join.threads) {
        gs_write_object(&writer, "graph_join");
        gs_write_fields(&writer, join_fields, GS_COUNT(join_fields), &gpu->join);
        gs_write_end(&writer);
    }
    if (gpu->memory_kernels[0].threads)
        write_memory(&writer, gpu);
    if (gpu->machine) {
        gs_write_object(&writer, "machine");
        gs_machine_write(&writer, gpu->machine);
        gs_write_end(&writer);
    }
    gs_write_end(&writer);
}
