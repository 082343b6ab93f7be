/*
 * gpus.c: gridsmith gpus: lists the described GPUs, and shows a description: in words, as JSON or as a picture. The GPU
 * of this machine is described by a built-in description, or by what the driver says of it.
 */
#include "cmd.h"

struct options {
    bool json, svg;
    const char *output;
    gs_gpu_choice gpu;
};

static const gs_option option_table[] = {
    GS_FLAG(struct options, "json", json, "write the descriptions (gridsmith.gpu/1), one line each"),
    GS_FLAG(struct options, "svg", svg,
            "draw a GPU: its GPCs, TPCs, SMs and partitions, and which SM gets which block"),
    GS_OUTPUT(struct options, output, "write to FILE instead of standard output"),
    GS_TEXT(struct options, "like", gpu.like, "NAME|FILE", "a GPU without a description, assumed to be like this one"),
    GS_INT(struct options, "sms", gpu.sms, "N", 1, GS_MAX_SMS, "with --like: its number of SMs"),
};

/* ---- the list ---- */

/* The title is shortened where the terminal is narrow. */
static int title_width(const gs_text *text) {
    enum { REST = 59, LEAST = 12, MOST = 32 };
    return text->columns ? (int)gs_max(gs_min(text->columns - REST, MOST), LEAST) : MOST;
}

#define ROW "%-15s  %-*.*s %-4s %4s %6s %7s %6s  %s\n"

static gs_code put_row(gs_text *text, const gs_gpu *gpu, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    char numbers[4][12];
    const int32_t values[] = {gpu->sms, limits->blocks_per_sm, limits->threads_per_sm,
                              gpu->largest_config_bytes / 1024};
    (void)error;
    for (size_t i = 0; i < GS_COUNT(values); i++)
        snprintf(numbers[i], sizeof numbers[i], "%d", values[i]);
    int width = title_width(text);
    gs_text_add(text, ROW, gpu->name, width, width, gpu->title ? gpu->title : "",
                gpu->compute_capability ? gpu->compute_capability : "", numbers[0], numbers[1], numbers[2], numbers[3],
                gpu->assumed ? "-" : "yes");
    return GS_OK;
}

/* ---- one GPU ---- */

static void put_limits(gs_text *text, const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    gs_text_add(text, "  SMs                     %d, %d per TPC\n", gpu->sms, gpu->sms_per_tpc);
    gs_text_add(text, "  block slots per SM      %d\n", limits->blocks_per_sm);
    gs_text_add(text, "  threads per SM          %d in %d partitions of %d warps\n", limits->threads_per_sm,
                limits->partitions_per_sm, gpu->warps_per_partition);
    gs_text_add(text, "  threads per block       %d\n", limits->threads_per_block);
    gs_text_add(text, "  registers per SM        %d, handed out to warps %d at a time\n", limits->registers_per_sm,
                limits->register_granularity);
    gs_text_add(text, "  registers per thread    %d\n", limits->registers_per_thread);
    gs_text_add(text, "  shared memory a block   %d bytes, and %d for the runtime, in steps of %d\n",
                limits->shared_per_block_bytes, limits->shared_reserved_bytes, limits->shared_granularity_bytes);
    gs_text_add(text, "  configurations          ");
    for (int32_t i = 0; i < limits->configs; i++)
        gs_text_add(text, "%s%d", i ? ", " : "", limits->config_bytes[i] / 1024);
    gs_text_add(text, " KB\n");
    if (limits->kernels_per_gpu)
        gs_text_add(text, "  kernels at a time       %d\n", limits->kernels_per_gpu);
}

static gs_code put_whole(gs_text *text, const gs_gpu *gpu, gs_error *error) {
    gs_mechanisms mechanisms = gpu->mechanisms;
    gs_text_add(text, "%s: %s\n", gpu->name, gpu->title ? gpu->title : "");
    if (gpu->uuid)
        gs_text_add(text, "  UUID                    %s\n", gpu->uuid);
    put_limits(text, gpu);
    gs_code code = gs_put_gpu_layout(text, gpu, error);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        gs_text_add(text, "  %-19s     %-11s  %s\n", mechanism->name,
                    mechanism->values[*gs_mechanism_value(&mechanisms, mechanism)], mechanism->help);
    }
    if (gpu->assumed)
        gs_text_add(text, "  assumed: %s\n", gpu->assumed);
    if (gpu->source)
        gs_text_add(text, "  source: %s\n", gpu->source);
    return code;
}

static gs_code put_json(gs_text *text, const gs_gpu *gpu, gs_error *error) {
    (void)error;
    gs_text_flush(text);
    text->columns = 0;
    gs_gpu_text(gpu, text);
    gs_text_put(text, "\n", 1);
    return GS_OK;
}

/* ---- which GPUs ---- */

typedef gs_code put_gpu(gs_text *text, const gs_gpu *gpu, gs_error *error);

/* The GPU of this name; NULL: that of --like. */
static gs_code show_gpu(gs_text *text, const struct options *options, const char *name, put_gpu *put, gs_error *error) {
    gs_gpu_choice choice = {.name = name};
    gs_gpu *gpu = gs_choose_gpu(name ? &choice : &options->gpu, NULL, error);
    gs_code code = gpu ? put(text, gpu, error) : error->code;
    gs_gpu_free(gpu);
    return code;
}

static gs_code show_all(gs_text *text, const struct options *options, const gs_words *names, gs_error *error) {
    put_gpu *put_one = options->json ? put_json : options->svg ? gs_put_gpu_svg : put_whole;
    int width = title_width(text);
    gs_code code = GS_OK;
    const char *name;
    if (options->gpu.like)
        return show_gpu(text, options, NULL, put_one, error);
    if (!names->count && !options->json)
        gs_text_add(text, ROW, "name", width, width, "GPU", "cc", "SMs", "blocks", "threads", "shared", "measured");
    for (size_t i = 0; !names->count && (name = gs_gpu_builtin(i)) && code == GS_OK; i++)
        code = show_gpu(text, options, name, options->json ? put_json : put_row, error);
    for (size_t i = 0; i < names->count && code == GS_OK; i++)
        code = show_gpu(text, options, names->data[i], put_one, error);
    return code;
}

static gs_code write_all(const struct options *options, const gs_words *names, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code != GS_OK)
        return code;
    gs_text text = options->svg ? (gs_text){.sink = output.file} : gs_text_for_people(output.file);
    code = show_all(&text, options, names, error);
    return gs_output_end(&output, gs_print_text(&text, code, error), error);
}

static int run_gpus(const gs_command *command, void *given, const gs_words *names) {
    gs_error error = {.code = GS_OK};
    const struct options *options = given;
    const gs_gpu_choice *gpu = &options->gpu;
    if (gpu->like ? names->count > 0 : gpu->sms > 0)
        return gs_usage(command, "--like excludes names, and --sms needs --like");
    if (options->json && options->svg)
        return gs_usage(command, "--json and --svg exclude each other");
    if (options->svg && !gpu->like && names->count != 1)
        return gs_usage(command, "--svg draws one GPU: give its name");
    return write_all(options, names, &error) == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_gpus = {
    .name = "gpus",
    .summary = "List the described GPUs, or show a description.",
    .usage = "[options] [NAME|FILE|cuda[:N]... | --like NAME|FILE [--sms N]]",
    .details =
        "Block slots and threads are per SM; shared is the largest configuration in KB. Descriptions that\nwere not "
        "measured have the limits of NVIDIA's specification and assumed mechanisms. A GPU's own page shows its\nGPCs "
        "(0+1 are two SMs of a TPC), and the SMs of the first blocks. cuda is the GPU of this machine: its\nbuilt-in "
        "description, or what the driver says of it.\n\n  gridsmith gpus rtx3090\n  gridsmith gpus --svg -o h200.svg "
        "h200\n  gridsmith gpus --json cuda > mine.json\n  gridsmith gpus --like h200 --sms 114 --json > mine.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {0, SIZE_MAX, NULL},
    .run = run_gpus,
};
