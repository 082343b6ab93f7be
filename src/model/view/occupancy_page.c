/*
 * occupancy_page.c: the page of `occupancy`: a calculator. Threads, registers, shared memory, the GPU, the carve-out
 * and the cluster can be changed by hand.
 *
 * The page computes nothing that the model decides: it has the answers in tables, because each limit depends on few
 * numbers. Block slots depend on none, warps on threads, registers on threads and registers, shared memory on shared
 * memory and the carve-out. GPUs with the same limits and mechanisms share their tables. Of the carve-outs only those
 * with different answers are there. How many clusters fit on an empty GPU depends on the blocks that fit on an SM.
 */
#include "model/engine/engine.h"
#include "occupancy_view.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LIMIT = 10000, PERCENTS = 102, LEAST_CLUSTER = 2, MOST_CLUSTER = 16 };

/* ---- tables of one kind of GPU ---- */

static void write_limit(gs_writer *writer, int32_t blocks) {
    gs_write_int(writer, NULL, gs_min(blocks, MOST_LIMIT));
}

static void write_warps(gs_writer *writer, const gs_gpu *gpu) {
    gs_shape at = gs_shape_of(gpu->limits.warp_threads, 1, 0);
    gs_write_array(writer, "by_warps");
    for (; at.threads <= gpu->limits.threads_per_block; at.threads += gpu->limits.warp_threads)
        write_limit(writer, gs_curve_limits_of(gpu, &at).by[GS_CURVE_WARPS]);
    gs_write_end(writer);
}

static void write_registers(gs_writer *writer, const gs_gpu *gpu) {
    gs_write_array(writer, "by_registers");
    for (int32_t threads = gpu->limits.warp_threads; threads <= gpu->limits.threads_per_block;
         threads += gpu->limits.warp_threads) {
        gs_write_array(writer, NULL);
        for (int32_t registers = 1; registers <= gpu->limits.registers_per_thread; registers++) {
            gs_shape at = gs_shape_of(threads, registers, 0);
            write_limit(writer, gs_curve_limits_of(gpu, &at).by[GS_CURVE_REGISTERS]);
        }
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* Blocks by shared memory with a carve-out, for each step of it. */
static void fill_shared(const gs_gpu *gpu, int32_t percent, int32_t *blocks, size_t steps) {
    gs_shape at = gs_shape_of(gpu->limits.warp_threads, 1, 0);
    at.carveout_percent = percent;
    for (size_t i = 0; i < steps; i++) {
        at.shared_bytes = (int64_t)i * gpu->limits.shared_granularity_bytes;
        blocks[i] = gs_curve_limits_of(gpu, &at).by[GS_CURVE_SHARED];
    }
}

/* The different tables of all carve-outs, and for each carve-out, the first of which is none, the number of its table.
 */
static void write_shared(gs_writer *writer, const gs_gpu *gpu) {
    size_t steps = (size_t)(gpu->limits.shared_per_block_bytes / gpu->limits.shared_granularity_bytes) + 1, tables = 0;
    int32_t *found = malloc(PERCENTS * steps * sizeof *found);
    size_t table_of[PERCENTS];
    gs_write_array(writer, "by_shared");
    for (int i = 0; i < PERCENTS && found; i++) {
        int32_t *made = found + tables * steps;
        fill_shared(gpu, i ? i - 1 : GS_NO_CARVEOUT, made, steps);
        size_t same = 0;
        while (same < tables && memcmp(found + same * steps, made, steps * sizeof *made) != 0)
            same++;
        table_of[i] = same;
        if (same < tables)
            continue;
        tables++;
        gs_write_array(writer, NULL);
        for (size_t k = 0; k < steps; k++)
            write_limit(writer, made[k]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_array(writer, "carveouts");
    for (int i = 0; i < PERCENTS && found; i++)
        gs_write_uint(writer, NULL, table_of[i]);
    gs_write_end(writer);
    writer->text->failed |= !found;
    free(found);
}

static void write_table(gs_writer *writer, const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    gs_write_object(writer, NULL);
    gs_write_int(writer, "block_slots", limits->blocks_per_sm);
    gs_write_int(writer, "warps", (int64_t)gpu->warps_per_partition * limits->partitions_per_sm);
    gs_write_int(writer, "warp_threads", limits->warp_threads);
    gs_write_int(writer, "most_threads", limits->threads_per_block);
    gs_write_int(writer, "most_registers", limits->registers_per_thread);
    gs_write_int(writer, "most_shared", limits->shared_per_block_bytes);
    gs_write_int(writer, "shared_step", limits->shared_granularity_bytes);
    write_warps(writer, gpu);
    write_registers(writer, gpu);
    write_shared(writer, gpu);
    gs_write_end(writer);
}

/* ---- clusters ---- */

/* A kernel of which this many blocks fit on an SM, because of its shared memory. False: there is none. */
static bool find_shape(const gs_gpu *gpu, int32_t blocks, gs_shape *shape) {
    *shape = gs_shape_of(gpu->limits.warp_threads, 1, 0);
    if (gs_curve_limits_of(gpu, shape).blocks == blocks)
        return true;
    int64_t bytes = gpu->largest_config_bytes / blocks - gpu->limits.shared_reserved_bytes;
    shape->shared_bytes =
        gs_min(bytes - bytes % gpu->limits.shared_granularity_bytes, gpu->limits.shared_per_block_bytes);
    return shape->shared_bytes > 0 && gs_curve_limits_of(gpu, shape).blocks == blocks;
}

/* By the size of a cluster, 2, 4, 8 and 16, and by the blocks that fit on an SM, from 1: how many clusters an empty GPU
 * takes. */
static void write_clusters(gs_writer *writer, const gs_gpu *gpu) {
    gs_write_array(writer, "clusters");
    for (int32_t size = LEAST_CLUSTER; size <= MOST_CLUSTER && gs_gpu_has_clusters(gpu); size *= 2) {
        gs_write_array(writer, NULL);
        for (int32_t blocks = 1; blocks <= gpu->limits.blocks_per_sm; blocks++) {
            gs_shape shape;
            gs_error error;
            int64_t most = find_shape(gpu, blocks, &shape) ? gs_clusters_most(gpu, &shape, size, &error) : -1;
            if (most < 0)
                gs_write_null(writer, NULL);
            else
                gs_write_int(writer, NULL, most);
        }
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* ---- the GPUs ---- */

/* The GPU of the command line, then the built-in ones. */
struct listed {
    gs_gpu **data;
    size_t count, capacity;
    size_t *tables; /* of each: the first one with the same answers */
};

static bool has_same_tables(const gs_gpu *one, const gs_gpu *other) {
    return memcmp(&one->limits, &other->limits, sizeof one->limits) == 0 &&
           memcmp(&one->mechanisms, &other->mechanisms, sizeof one->mechanisms) == 0;
}

static gs_code list_gpus(struct listed *listed, const gs_gpu *chosen, gs_error *error) {
    gs_gpu *copy = gs_gpu_copy(chosen, error);
    if (!copy || !GS_PUSH(listed, copy)) {
        gs_gpu_free(copy);
        return gs_fail_memory(error);
    }
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = strcmp(gs_gpu_builtin(i), chosen->name) == 0 ? NULL : gs_gpu_open(gs_gpu_builtin(i), error);
        if (gpu && !GS_PUSH(listed, gpu)) {
            gs_gpu_free(gpu);
            return gs_fail_memory(error);
        }
    }
    listed->tables = calloc(listed->count, sizeof *listed->tables);
    if (!listed->tables)
        return gs_fail_memory(error);
    for (size_t i = 0; i < listed->count; i++)
        while (!has_same_tables(listed->data[listed->tables[i]], listed->data[i]))
            listed->tables[i]++;
    return GS_OK;
}

static void clear_gpus(struct listed *listed) {
    for (size_t i = 0; i < listed->count; i++)
        gs_gpu_free(listed->data[i]);
    free(listed->data);
    free(listed->tables);
}

static void write_gpus(gs_writer *writer, const struct listed *listed) {
    gs_write_array(writer, "gpus");
    for (size_t i = 0; i < listed->count; i++) {
        const gs_gpu *gpu = listed->data[i];
        size_t table = 0;
        for (size_t k = 0; k < listed->tables[i]; k++)
            table += listed->tables[k] == k;
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", gpu->name);
        gs_write_string(writer, "title", gpu->title ? gpu->title : gpu->name);
        gs_write_optional(writer, "assumed", gpu->assumed);
        gs_write_int(writer, "sms", gpu->sms);
        gs_write_uint(writer, "table", table);
        write_clusters(writer, gpu);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_array(writer, "tables");
    for (size_t i = 0; i < listed->count; i++)
        if (listed->tables[i] == i)
            write_table(writer, listed->data[i]);
    gs_write_end(writer);
}

/* ---- the page ---- */

static void write_curves(gs_writer *writer) {
    gs_write_array(writer, "curves");
    for (int i = 0; i < GS_LIMIT_CURVES; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", gs_limit_curves[i].name);
        gs_write_string(writer, "color", gs_limit_curves[i].color);
        gs_write_string(writer, "dash", gs_limit_curves[i].dash);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_page(gs_writer *writer, const struct listed *listed, const gs_shape *shape, int32_t cluster) {
    gs_write_document(writer, "gridsmith.occupancy-view/1");
    gs_write_int(writer, "threads", shape->threads);
    gs_write_int(writer, "registers", shape->registers);
    gs_write_int(writer, "shared_bytes", shape->shared_bytes);
    gs_write_int(writer, "carveout", shape->carveout_percent);
    gs_write_int(writer, "cluster", cluster);
    write_curves(writer);
    write_gpus(writer, listed);
    gs_write_array(writer, "arrays");
    gs_write_finish(writer);
}

gs_code gs_put_occupancy_html(gs_text *text, const gs_gpu *gpu, const gs_shape *shape, int32_t cluster,
                              gs_error *error) {
    static const char *const scripts[] = {"data.js", "occupancy.js", NULL};
    const char *title = gpu->title ? gpu->title : gpu->name;
    struct listed listed = {0};
    gs_text json = {0};
    gs_writer writer = gs_writer_to(&json);
    gs_code code = list_gpus(&listed, gpu, error);
    if (code == GS_OK) {
        write_page(&writer, &listed, shape, cluster);
        gs_html_begin(text, "occupancy.html");
        gs_html_add_json(text, title, &json);
        gs_html_end(text, "occupancy.html", scripts);
        if (json.failed || text->failed)
            code = gs_fail_memory(error);
    }
    clear_gpus(&listed);
    gs_text_free(&json);
    return code;
}
