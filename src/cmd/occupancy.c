/*
 * occupancy.c: gridsmith occupancy: how many blocks of one kernel an SM takes, and which resource says so.
 */
#include "cmd.h"

#include "sched/sched.h"

#include <stdlib.h>

struct occupancy {
    gs_gpu_choice gpu;
    int64_t threads, registers, shared_bytes, carveout, cluster;
    bool json;
};

static const gs_option options[] = {
    {.name = "gpu",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct occupancy, gpu.name),
     .argument = "NAME|FILE",
     .help = "the GPU: a name from 'gridsmith gpus', or a description",
     .required = true},
    {.name = "threads",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct occupancy, threads),
     .argument = "N",
     .help = "threads of a block",
     .least = 1,
     .most = 65536,
     .required = true},
    {.name = "registers",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct occupancy, registers),
     .argument = "N",
     .help = "registers of a thread, as the compiler reports them",
     .least = 1,
     .most = 65536,
     .required = true},
    {.name = "shared",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct occupancy, shared_bytes),
     .argument = "BYTES",
     .help = "shared memory of a block, static and dynamic together (default 0)",
     .least = 0,
     .most = INT32_MAX},
    {.name = "carveout",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct occupancy, carveout),
     .argument = "PERCENT",
     .help = "shared-memory carve-out the program asks for (default: the largest)",
     .least = 0,
     .most = 100},
    {.name = "cluster",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct occupancy, cluster),
     .argument = "N",
     .help = "also, how many clusters of N blocks an empty GPU takes",
     .least = 2,
     .most = GS_MAX_SMS},
    {.name = "json", .offset = offsetof(struct occupancy, json), .help = "write gridsmith.occupancy/1"},
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

static double percent(const gs_occupancy *occupancy) {
    return 100.0 * occupancy->blocks * occupancy->warps_per_block / occupancy->warps_per_sm;
}

static void print_words(const gs_gpu *gpu, const struct occupancy *asked, const gs_occupancy *occupancy,
                        int64_t clusters) {
    struct resource resources[RESOURCES];
    list_resources(occupancy, resources);
    printf("%s: %lld threads, %lld registers a thread, %lld bytes of shared memory\n", gpu->name,
           (long long)asked->threads, (long long)asked->registers, (long long)asked->shared_bytes);
    printf("%d blocks per SM: %d of %d warps, %.1f%%\n", occupancy->blocks,
           occupancy->blocks * occupancy->warps_per_block, occupancy->warps_per_sm, percent(occupancy));
    for (int i = 0; i < RESOURCES; i++) {
        if (resources[i].blocks == GS_NO_LIMIT)
            printf("  %-14s    -", resources[i].words);
        else
            printf("  %-14s %4d", resources[i].words, resources[i].blocks);
        printf("%s\n", occupancy->limits & resources[i].bit ? "  limit" : "");
    }
    printf("shared-memory configuration: %lld KB (%lld bytes a block with what the runtime reserves)\n",
           (long long)(occupancy->shared_config_bytes / 1024), (long long)occupancy->shared_block_bytes);
    if (asked->cluster)
        printf("%lld clusters of %lld blocks on an empty GPU\n", (long long)clusters, (long long)asked->cluster);
}

static void print_json(const gs_gpu *gpu, const struct occupancy *asked, const gs_occupancy *occupancy,
                       int64_t clusters) {
    struct resource resources[RESOURCES];
    gs_text text = {.sink = stdout};
    const char *between = "";
    list_resources(occupancy, resources);
    gs_text_add(&text, "{\"schema\":\"gridsmith.occupancy/1\",\"gpu\":");
    gs_text_put_json(&text, gpu->name);
    gs_text_add(&text, ",\"blocks_per_sm\":%d,\"limits\":[", occupancy->blocks);
    for (int i = 0; i < RESOURCES; i++)
        if (occupancy->limits & resources[i].bit) {
            gs_text_add(&text, "%s\"%s\"", between, resources[i].key);
            between = ",";
        }
    gs_text_add(&text, "],\"blocks_by\":{");
    for (int i = 0; i < RESOURCES; i++) {
        gs_text_add(&text, "%s\"%s\":", i ? "," : "", resources[i].key);
        if (resources[i].blocks == GS_NO_LIMIT)
            gs_text_add(&text, "null");
        else
            gs_text_put_int(&text, resources[i].blocks);
    }
    gs_text_add(&text,
                "},\"warps_per_block\":%d,\"warps_per_sm\":%d,\"occupancy_percent\":%.4g,\"shared_block_bytes\":%lld,"
                "\"shared_config_bytes\":%lld",
                occupancy->warps_per_block, occupancy->warps_per_sm, percent(occupancy),
                (long long)occupancy->shared_block_bytes, (long long)occupancy->shared_config_bytes);
    if (asked->cluster)
        gs_text_add(&text, ",\"cluster\":%lld,\"clusters\":%lld", (long long)asked->cluster, (long long)clusters);
    gs_text_add(&text, "}\n");
    gs_text_flush(&text);
    gs_text_free(&text);
}

static int print(const struct occupancy *asked, gs_error *error) {
    gs_gpu *gpu = gs_choose_gpu(&asked->gpu, NULL, error);
    if (!gpu)
        return gs_report(error);
    gs_shape shape = {.threads = (int32_t)asked->threads,
                      .registers = (int32_t)asked->registers,
                      .shared_bytes = asked->shared_bytes,
                      .carveout_percent = (int32_t)asked->carveout};
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &shape, &occupancy, error);
    int64_t clusters = 0;
    int status = 0;
    if (occupancy.blocks && asked->cluster)
        clusters = gs_clusters_most(gpu, &shape, (int32_t)asked->cluster, error);
    if (clusters < 0) {
        status = gs_report(error);
    } else if (!occupancy.blocks) {
        char text[600];
        fprintf(stderr, "gridsmith: the kernel can never run on %s: %s\n", gpu->name,
                gs_error_text(error, text, sizeof text));
        status = 1;
    } else if (asked->json) {
        print_json(gpu, asked, &occupancy, clusters);
    } else {
        print_words(gpu, asked, &occupancy, clusters);
    }
    gs_gpu_free(gpu);
    return status;
}

static int run(const gs_command *command, int argc, char **argv) {
    struct occupancy asked = {.carveout = GS_NO_CARVEOUT};
    gs_words files;
    gs_error error = {.code = GS_OK};
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && files.count)
        status = gs_usage(command, "\"%s\" is not an option", files.data[0]);
    else if (parsed == GS_PARSED)
        status = print(&asked, &error);
    free(files.data);
    return status;
}

const gs_command gs_command_occupancy = {
    .name = "occupancy",
    .summary = "How many blocks of one kernel an SM takes, and which resource says so.",
    .usage = "--gpu NAME --threads N --registers N [options]",
    .details = "Exit code 1: the kernel can never run on this GPU.\n\n"
               "  gridsmith occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
