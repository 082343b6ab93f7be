/*
 * gpus.c: gridsmith gpus: lists the described GPUs, and shows a description.
 */
#include "cmd.h"

struct options {
    bool json;
    gs_gpu_choice gpu;
};

static const gs_option option_table[] = {
    GS_FLAG(struct options, "json", json, "write the descriptions (gridsmith.gpu/1), one line each"),
    GS_TEXT(struct options, "like", gpu.like, "NAME|FILE", "a GPU without a description, assumed to be like this one"),
    GS_INT(struct options, "sms", gpu.sms, "N", 1, GS_MAX_SMS, "with --like: its number of SMs"),
};

#define ROW "%-15s  %-32s %-4s %4s %6s %7s %6s  %s\n"

static void print_row(const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    char numbers[4][12];
    const int32_t values[] = {gpu->sms, limits->blocks_per_sm, limits->threads_per_sm,
                              gpu->largest_config_bytes / 1024};
    for (size_t i = 0; i < GS_COUNT(values); i++)
        snprintf(numbers[i], sizeof numbers[i], "%d", values[i]);
    printf(ROW, gpu->name, gpu->title ? gpu->title : "", gpu->compute_capability ? gpu->compute_capability : "",
           numbers[0], numbers[1], numbers[2], numbers[3], gpu->assumed ? "-" : "yes");
}

static void print_limits(const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    printf("  SMs                     %d, %d a TPC\n", gpu->sms, gpu->sms_per_tpc);
    printf("  block slots per SM      %d\n", limits->blocks_per_sm);
    printf("  threads per SM          %d in %d partitions of %d warps\n", limits->threads_per_sm,
           limits->partitions_per_sm, gpu->warps_per_partition);
    printf("  threads per block       %d\n", limits->threads_per_block);
    printf("  registers per SM        %d, handed out to warps %d at a time\n", limits->registers_per_sm,
           limits->register_granularity);
    printf("  registers per thread    %d\n", limits->registers_per_thread);
    printf("  shared memory per block %d bytes, and %d for the runtime, in steps of %d\n",
           limits->shared_per_block_bytes, limits->shared_reserved_bytes, limits->shared_granularity_bytes);
    printf("  configurations          ");
    for (int32_t i = 0; i < limits->configs; i++)
        printf("%s%d", i ? ", " : "", limits->config_bytes[i] / 1024);
    printf(" KB\n");
    if (limits->kernels_per_gpu)
        printf("  kernels at a time       %d\n", limits->kernels_per_gpu);
}

/* A line for each GPC: its SMs, those of a TPC together. */
static void print_gpcs(const gs_gpu *gpu) {
    const gs_sm_groups *lists = &gpu->gpc_sms;
    for (int32_t gpc = 0, at = 0; gpc < lists->count; gpc++) {
        printf("  GPC %-2d %3d SMs         ", gpc, lists->ends[gpc] - at);
        for (int32_t before = -1; at < lists->ends[gpc]; before = lists->sms[at++])
            printf("%s%d",
                   before < 0                                                       ? ""
                   : before / gpu->sms_per_tpc == lists->sms[at] / gpu->sms_per_tpc ? "+"
                                                                                    : " ",
                   lists->sms[at]);
        printf("\n");
    }
}

static void print_whole(const gs_gpu *gpu) {
    gs_mechanisms mechanisms = gpu->mechanisms;
    printf("%s: %s\n", gpu->name, gpu->title ? gpu->title : "");
    if (gpu->uuid)
        printf("  UUID                    %s\n", gpu->uuid);
    print_limits(gpu);
    print_gpcs(gpu);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        printf("  %-19s     %-11s %s\n", mechanism->name,
               mechanism->values[*gs_mechanism_value(&mechanisms, mechanism)], mechanism->help);
    }
    if (gpu->assumed)
        printf("  assumed: %s\n", gpu->assumed);
    if (gpu->source)
        printf("  source: %s\n", gpu->source);
}

static gs_code print_json(const gs_gpu *gpu, gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_gpu_text(gpu, &text);
    gs_text_put(&text, "\n", 1);
    return gs_print_text(&text, GS_OK, error);
}

/* The GPU of this name; NULL: that of --like. */
static gs_code show_gpu(const struct options *options, const char *name, void (*print)(const gs_gpu *),
                        gs_error *error) {
    gs_gpu_choice choice = {.name = name};
    gs_gpu *gpu = gs_choose_gpu(name ? &choice : &options->gpu, NULL, error);
    gs_code code = gpu ? GS_OK : error->code;
    if (gpu && options->json)
        code = print_json(gpu, error);
    else if (gpu)
        print(gpu);
    gs_gpu_free(gpu);
    return code;
}

static gs_code show_all(const struct options *options, const gs_words *names, gs_error *error) {
    gs_code code = GS_OK;
    const char *name;
    if (options->gpu.like)
        return show_gpu(options, NULL, print_whole, error);
    if (!names->count && !options->json)
        printf(ROW, "name", "GPU", "cc", "SMs", "blocks", "threads", "shared", "measured");
    for (size_t i = 0; !names->count && (name = gs_gpu_builtin(i)) && code == GS_OK; i++)
        code = show_gpu(options, name, print_row, error);
    for (size_t i = 0; i < names->count && code == GS_OK; i++)
        code = show_gpu(options, names->data[i], print_whole, error);
    return code;
}

static int run_gpus(const gs_command *command, void *given, const gs_words *names) {
    gs_error error = {.code = GS_OK};
    const gs_gpu_choice *gpu = &((const struct options *)given)->gpu;
    if (gpu->like ? names->count > 0 : gpu->sms > 0)
        return gs_usage(command, "--like excludes names, and --sms needs --like");
    return show_all(given, names, &error) == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_gpus = {
    .name = "gpus",
    .summary = "List the described GPUs, or show a description.",
    .usage = "[--json] [NAME|FILE... | --like NAME|FILE [--sms N]]",
    .details = "Block slots and threads are per SM; shared is the largest configuration in KB. What was not measured\n"
               "has the limits of NVIDIA's specification and mechanisms that are assumed. A GPU's own page shows its\n"
               "GPCs: 0+1 are two SMs of a TPC.\n\n"
               "  gridsmith gpus rtx3090\n"
               "  gridsmith gpus --like h200 --sms 114 --json > mine.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {0, SIZE_MAX, NULL},
    .run = run_gpus,
};
