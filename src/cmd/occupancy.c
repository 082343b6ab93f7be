/*
 * occupancy.c: gridsmith occupancy: how many blocks of one kernel fit on an SM, and which resource is the limit.
 */
#include "cmd.h"

#include "model/engine/engine.h"
#include "model/view/view.h"

struct options {
    gs_gpu_choice gpu;
    int64_t threads, registers, shared_bytes, carveout, cluster;
    bool json, svg, html;
    const char *output;
};

static const gs_option option_table[] = {
    GS_TEXT_REQUIRED(struct options, "gpu", gpu.name, "NAME|FILE",
                     "the GPU: a name from 'gridsmith gpus', or a description"),
    GS_INT_REQUIRED(struct options, "threads", threads, "N", 1, 65536, "threads of a block"),
    GS_INT_REQUIRED(struct options, "registers", registers, "N", 1, 65536,
                    "registers of a thread, as the compiler reports them"),
    GS_SIZE(struct options, "shared", shared_bytes, 0, INT32_MAX,
            "shared memory of a block, static and dynamic together, such as 200K (default 0)"),
    GS_INT(struct options, "carveout", carveout, "PERCENT", 0, 100,
           "the shared-memory carve-out that the program sets (default: the largest)"),
    GS_INT(struct options, "cluster", cluster, "N", 2, GS_MAX_SMS,
           "also print how many clusters of N blocks fit on an empty GPU"),
    GS_FLAG(struct options, "json", json, "write gridsmith.occupancy/1"),
    GS_FLAG(struct options, "svg", svg, "draw blocks per SM over threads, registers and shared memory"),
    GS_FLAG(struct options, "html", html, "the same as a page in which the three can be changed"),
    GS_OUTPUT(struct options, output, "write the picture or the page to FILE instead of standard output"),
};

struct resource {
    const char *words, *key;
    unsigned bit;
    int32_t blocks;
};

enum { RESOURCES = 4 };

static void list_resources(const gs_occupancy *occupancy, struct resource *resources) {
    resources[0] = (struct resource){"block slots", "block_slots", GS_LIMIT_BLOCKS, occupancy->by_blocks};
    resources[1] = (struct resource){"warps", "warps", GS_LIMIT_WARPS, occupancy->by_warps};
    resources[2] = (struct resource){"registers", "registers", GS_LIMIT_REGISTERS, occupancy->by_registers};
    resources[3] = (struct resource){"shared memory", "shared_memory", GS_LIMIT_SHARED, occupancy->by_shared};
}

static double occupancy_percent(const gs_occupancy *occupancy) {
    return 100.0 * occupancy->blocks * occupancy->warps_per_block / occupancy->warps_per_sm;
}

static void put_words(gs_text *text, const gs_gpu *gpu, const struct options *options, const gs_occupancy *occupancy,
                      int64_t clusters) {
    struct resource resources[RESOURCES];
    list_resources(occupancy, resources);
    gs_text_add(text, "%s: %lld threads, %lld registers a thread, %lld bytes of shared memory\n", gpu->name,
                (long long)options->threads, (long long)options->registers, (long long)options->shared_bytes);
    if (gpu->assumed)
        gs_text_add(text, "%s: %s\n", gpu->name, gpu->assumed);
    gs_text_add(text, "%d block%s per SM: %d of %d warps, %.1f%%\n", occupancy->blocks,
                occupancy->blocks == 1 ? "" : "s", occupancy->blocks * occupancy->warps_per_block,
                occupancy->warps_per_sm, occupancy_percent(occupancy));
    for (int i = 0; i < RESOURCES; i++) {
        if (resources[i].blocks == GS_NO_LIMIT)
            gs_text_add(text, "  %-14s    -", resources[i].words);
        else
            gs_text_add(text, "  %-14s %4d", resources[i].words, resources[i].blocks);
        gs_text_add(text, "%s\n", occupancy->limits & resources[i].bit ? "  limit" : "");
    }
    gs_text_add(text, "shared-memory configuration: %lld KB (%lld bytes per block, including the runtime's)\n",
                (long long)(occupancy->shared_config_bytes / 1024), (long long)occupancy->shared_block_bytes);
    if (options->cluster)
        gs_text_add(text, "%lld cluster%s of %lld blocks on an empty GPU\n", (long long)clusters,
                    clusters == 1 ? "" : "s", (long long)options->cluster);
}

static gs_code print_json(const gs_gpu *gpu, const struct options *options, const gs_occupancy *occupancy,
                          int64_t clusters, gs_error *error) {
    struct resource resources[RESOURCES];
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    list_resources(occupancy, resources);
    gs_write_document(&writer, "gridsmith.occupancy/1");
    gs_write_string(&writer, "gpu", gpu->name);
    gs_write_optional(&writer, "assumed", gpu->assumed);
    gs_write_int(&writer, "blocks_per_sm", occupancy->blocks);
    gs_write_array(&writer, "limits");
    for (int i = 0; i < RESOURCES; i++)
        if (occupancy->limits & resources[i].bit)
            gs_write_string(&writer, NULL, resources[i].key);
    gs_write_end(&writer);
    gs_write_object(&writer, "blocks_by");
    for (int i = 0; i < RESOURCES; i++)
        if (resources[i].blocks == GS_NO_LIMIT)
            gs_write_null(&writer, resources[i].key);
        else
            gs_write_int(&writer, resources[i].key, resources[i].blocks);
    gs_write_end(&writer);
    gs_write_int(&writer, "warps_per_block", occupancy->warps_per_block);
    gs_write_int(&writer, "warps_per_sm", occupancy->warps_per_sm);
    gs_write_real(&writer, "occupancy_percent", occupancy_percent(occupancy), 3);
    gs_write_int(&writer, "shared_block_bytes", occupancy->shared_block_bytes);
    gs_write_int(&writer, "shared_config_bytes", occupancy->shared_config_bytes);
    if (options->cluster) {
        gs_write_int(&writer, "cluster", options->cluster);
        gs_write_int(&writer, "clusters", clusters);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

/* Writes the picture or the page. */
static gs_code draw_occupancy(const struct options *options, const gs_gpu *gpu, const gs_shape *shape,
                              gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code != GS_OK)
        return code;
    gs_text text = {.sink = output.file};
    if (options->svg)
        gs_put_occupancy_svg(&text, gpu, shape);
    else
        code = gs_put_occupancy_html(&text, gpu, shape, error);
    return gs_output_end(&output, gs_print_text(&text, code, error), error);
}

static int print_occupancy(const struct options *options, gs_error *error) {
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, NULL, error);
    if (!gpu)
        return gs_report(error);
    gs_shape shape = {.threads = (int32_t)options->threads,
                      .registers = (int32_t)options->registers,
                      .shared_bytes = options->shared_bytes,
                      .carveout_percent = (int32_t)options->carveout};
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &shape, &occupancy, error);
    int64_t clusters = 0;
    int status = 0;
    if (occupancy.blocks && options->cluster)
        clusters = gs_clusters_most(gpu, &shape, (int32_t)options->cluster, error);
    if (clusters < 0) {
        status = gs_report(error);
    } else if (!occupancy.blocks) {
        char text[600];
        fprintf(stderr, "gridsmith: the kernel can never run on %s: %s\n", gpu->name,
                gs_error_text(error, text, sizeof text));
        status = 1;
    } else if (options->svg || options->html) {
        if (draw_occupancy(options, gpu, &shape, error) != GS_OK)
            status = gs_report(error);
    } else if (options->json) {
        if (print_json(gpu, options, &occupancy, clusters, error) != GS_OK)
            status = gs_report(error);
    } else {
        gs_text text = gs_text_for_people(stdout);
        put_words(&text, gpu, options, &occupancy, clusters);
        gs_print_text(&text, GS_OK, error);
    }
    gs_gpu_free(gpu);
    return status;
}

static int run_occupancy(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    (void)words;
    if (options->json + options->svg + options->html > 1)
        return gs_usage(command, "--json, --svg and --html exclude each other");
    if (options->output && !options->svg && !options->html)
        return gs_usage(command, "--output goes with --svg and --html");
    return print_occupancy(options, &error);
}

const gs_command gs_command_occupancy = {
    .name = "occupancy",
    .summary = "Compute how many blocks of one kernel fit on an SM, and which resource is the limit.",
    .usage = "--gpu NAME --threads N --registers N [options]",
    .details = "Exit code 1: the kernel can never run on this GPU.\n\n"
               "  gridsmith occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768\n"
               "  gridsmith occupancy --gpu h200 --threads 256 --registers 64 --html -o occupancy.html\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.carveout = GS_NO_CARVEOUT},
    .run = run_occupancy,
};
