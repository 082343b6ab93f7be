/*
 * occupancy.c: gridsmith occupancy: how many blocks of a kernel fit on an SM, and which resource is the limit.
 *
 * The kernel is given by its numbers, or it is in a file: a CUDA source, PTX, machine code, or the recording of a
 * program. Of several kernels there is a row for each.
 */
#include "kernel_files.h"

#include "model/engine/engine.h"
#include "model/view/view.h"

#include <stdlib.h>

struct options {
    gs_gpu_choice gpu;
    int64_t threads, registers, shared_bytes, carveout, cluster;
    bool json, svg, html;
    const char *kernel, *output, *compiler;
};

enum { ASSUMED_THREADS = 256 };

static const gs_option option_table[] = {
    GS_TEXT(struct options, "gpu", gpu.name, "NAME|FILE",
            "the GPU: a name from 'gridsmith gpus', a description, or cuda[:N] (default: that of the recording)"),
    GS_TEXT(struct options, "kernel", kernel, "PATTERN[,PATTERN]...", "of a file: only these kernels"),
    GS_INT(struct options, "threads", threads, "N", 1, 65536,
           "threads of a block (default for the kernels of a file: as many as they declare, or 256)"),
    GS_INT(struct options, "registers", registers, "N", 1, 65536,
           "registers of a thread, as the compiler reports them; without a file"),
    GS_SIZE(
        struct options, "shared", shared_bytes, 0, INT32_MAX,
        "shared memory of a block, such as 200K (default 0): all of it; of the kernels of a file, the dynamic part"),
    GS_TEXT(struct options, "compiler", compiler, "NAME",
            "for CUDA sources: nvcc, nvrtc or clang (default: the first that can compile the file)"),
    GS_INT(struct options, "carveout", carveout, "PERCENT", 0, 100,
           "the shared-memory carve-out that the program sets (default: the largest)"),
    GS_INT(struct options, "cluster", cluster, "N", 2, GS_MAX_SMS,
           "also print how many clusters of N blocks fit on an empty GPU"),
    GS_FLAG(struct options, "json", json, "write gridsmith.occupancy/1"),
    GS_FLAG(struct options, "svg", svg, "draw blocks per SM over threads, registers and shared memory"),
    GS_FLAG(struct options, "html", html,
            "write a calculator for a browser, in which these three, the GPU, the carve-out and the cluster can be "
            "changed"),
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

static int32_t warps_of(const gs_occupancy *occupancy) {
    return occupancy->blocks * occupancy->warps_per_block;
}

static double occupancy_percent(const gs_occupancy *occupancy) {
    return 100.0 * warps_of(occupancy) / occupancy->warps_per_sm;
}

/* The largest smaller value of one number of a shape with which more than `warps` warps fit, and what fits then; 0:
   none. Fewer threads may let more blocks fit, but fewer warps. */
static int64_t find_more(const gs_gpu *gpu, const gs_shape *shape, int number, int32_t warps, gs_occupancy *found) {
    static const int64_t steps[] = {1, 32, 128};
    const int64_t values[] = {shape->registers, shape->threads, shape->shared_bytes};
    gs_error error;
    for (int64_t value = (values[number] - 1) / steps[number] * steps[number]; value > 0; value -= steps[number]) {
        gs_shape other = *shape;
        other.registers = number == 0 ? (int32_t)value : other.registers;
        other.threads = number == 1 ? (int32_t)value : other.threads;
        other.shared_bytes = number == 2 ? value : other.shared_bytes;
        gs_occupancy_of(gpu, &other, found, &error);
        if (warps_of(found) > warps)
            return value;
    }
    return 0;
}

/* What would have to be smaller for more warps, and the occupancy then. */
static void put_more(gs_text *text, const gs_gpu *gpu, const gs_shape *shape, int32_t warps) {
    static const char *const words[] = {"registers a thread", "threads", "bytes of shared memory"};
    int count = 0;
    for (int number = 0; number < (int)GS_COUNT(words); number++) {
        gs_occupancy found;
        int64_t value = find_more(gpu, shape, number, warps, &found);
        if (value)
            gs_text_add(text, "%s%lld %s (%.1f%%)", count++ ? ", or " : "more warps fit with ", (long long)value,
                        words[number], occupancy_percent(&found));
    }
    gs_text_add(text, "%s", count ? "\n" : "");
}

static void put_words(gs_text *text, const gs_gpu *gpu, const struct options *options, const gs_shape *shape,
                      const gs_occupancy *occupancy, int64_t clusters) {
    struct resource resources[RESOURCES];
    list_resources(occupancy, resources);
    gs_text_add(text, "%s: %lld thread%s, %lld register%s a thread, %lld byte%s of shared memory\n", gpu->name,
                (long long)options->threads, options->threads == 1 ? "" : "s", (long long)options->registers,
                options->registers == 1 ? "" : "s", (long long)options->shared_bytes,
                options->shared_bytes == 1 ? "" : "s");
    if (gpu->assumed)
        gs_text_add(text, "%s: %s\n", gpu->name, gpu->assumed);
    gs_text_add(text, "%d block%s per SM: %d of %d warps, %.1f%%\n", occupancy->blocks,
                occupancy->blocks == 1 ? "" : "s", warps_of(occupancy), occupancy->warps_per_sm,
                occupancy_percent(occupancy));
    for (int i = 0; i < RESOURCES; i++) {
        if (resources[i].blocks == GS_NO_LIMIT)
            gs_text_add(text, "  %-14s    -", resources[i].words);
        else
            gs_text_add(text, "  %-14s %4d", resources[i].words, resources[i].blocks);
        gs_text_add(text, "%s\n", occupancy->limits & resources[i].bit ? "  limit" : "");
    }
    gs_text_add(text, "shared-memory configuration: %lld KB (%lld bytes per block, including the runtime's)\n",
                (long long)(occupancy->shared_config_bytes / 1024), (long long)occupancy->shared_block_bytes);
    put_more(text, gpu, shape, warps_of(occupancy));
    if (options->cluster)
        gs_text_add(text, "%lld cluster%s of %lld blocks on an empty GPU\n", (long long)clusters,
                    clusters == 1 ? "" : "s", (long long)options->cluster);
}

/* `kernel`: of a file, or NULL. */
static void put_json(gs_text *text, const gs_gpu *gpu, const struct options *options, const gs_file_kernel *kernel,
                     const gs_occupancy *occupancy, int64_t clusters) {
    struct resource resources[RESOURCES];
    gs_writer writer = gs_writer_to(text);
    list_resources(occupancy, resources);
    gs_write_document(&writer, "gridsmith.occupancy/1");
    if (kernel) {
        gs_write_string(&writer, "kernel", kernel->symbol);
        gs_write_int(&writer, "threads", kernel->shape.threads);
        gs_write_int(&writer, "registers", kernel->shape.registers);
        gs_write_int(&writer, "shared_bytes", kernel->shape.shared_bytes);
        if (kernel->launches)
            gs_write_int(&writer, "launches", kernel->launches);
    }
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
        code = gs_put_occupancy_html(&text, gpu, shape, (int32_t)options->cluster, error);
    return gs_output_end(&output, gs_print_text(&text, code, error), error);
}

static int print_occupancy(const struct options *options, const gs_gpu *gpu, gs_error *error) {
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
        gs_text text = gs_text_for_people(stdout);
        put_json(&text, gpu, options, NULL, &occupancy, clusters);
        if (gs_print_text(&text, GS_OK, error) != GS_OK)
            status = gs_report(error);
    } else {
        gs_text text = gs_text_for_people(stdout);
        put_words(&text, gpu, options, &shape, &occupancy, clusters);
        gs_print_text(&text, GS_OK, error);
    }
    if (status == 0 && options->cluster && !clusters)
        status = 1;
    return status;
}

/* ---- the kernels of a file ---- */

/* Keeps the kernels that were asked for. */
static gs_code choose_kernels(const struct options *options, gs_file_kernels *kernels, gs_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < kernels->count && options->kernel; i++) {
        gs_file_kernel kernel = kernels->data[i];
        bool is_wanted = gs_run_matches(kernel.symbol, options->kernel) || gs_run_matches(kernel.name, options->kernel);
        if (is_wanted) {
            kernels->data[i] = kernels->data[kept];
            kernels->data[kept++] = kernel;
        }
    }
    if (!options->kernel)
        return GS_OK;
    if (!kept)
        return gs_fail(error, GS_E_USAGE, "no kernel matches %.80s; the first of %zu is %.120s", options->kernel,
                       kernels->count, kernels->data[0].name);
    for (size_t i = kept; i < kernels->count; i++) {
        free(kernels->data[i].symbol);
        free(kernels->data[i].name);
    }
    kernels->count = kept;
    return GS_OK;
}

/* The numbers of the command line. True: the threads are assumed. */
static bool complete_shape(const struct options *options, gs_shape *shape) {
    bool is_assumed = !options->threads && !shape->threads;
    shape->threads = options->threads ? (int32_t)options->threads : is_assumed ? ASSUMED_THREADS : shape->threads;
    shape->shared_bytes += options->shared_bytes;
    if (options->carveout != GS_NO_CARVEOUT)
        shape->carveout_percent = (int32_t)options->carveout;
    return is_assumed;
}

/* "registers, warps" */
static void put_limits(gs_text *text, const gs_occupancy *occupancy) {
    struct resource resources[RESOURCES];
    gs_text words = {0};
    list_resources(occupancy, resources);
    for (int i = 0; i < RESOURCES; i++)
        if (occupancy->limits & resources[i].bit)
            gs_text_add(&words, "%s%s", words.count ? ", " : "", resources[i].words);
    gs_text_add(text, "%-14s", words.count ? words.data : "");
    gs_text_free(&words);
}

/* One row; returns false if the kernel can never run. */
static bool put_kernel(gs_text *text, const struct options *options, const gs_gpu *gpu, const gs_file_kernel *kernel,
                       gs_error *error) {
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &kernel->shape, &occupancy, error);
    if (occupancy.blocks && options->json) {
        put_json(text, gpu, options, kernel, &occupancy, 0);
        return true;
    }
    if (options->json)
        return false;
    gs_text_add(text, "%7d %9d %7lld %9d ", kernel->shape.threads, kernel->shape.registers,
                (long long)kernel->shape.shared_bytes, occupancy.blocks);
    if (occupancy.blocks) {
        gs_text_add(text, "%9.1f%%  ", occupancy_percent(&occupancy));
        put_limits(text, &occupancy);
    } else {
        gs_text_add(text, "%10s  %-14s", "-", "never runs");
    }
    gs_text_add(text, "  %s\n", kernel->name);
    return occupancy.blocks > 0;
}

static int print_kernels(const struct options *options, const gs_gpu *gpu, gs_file_kernels *kernels, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    bool is_assumed = false, all_run = true;
    for (size_t i = 0; i < kernels->count; i++)
        is_assumed |= complete_shape(options, &kernels->data[i].shape);
    if (!options->json) {
        gs_text_add(&text, "%s, %d SMs: %zu kernel%s\n", gpu->name, gpu->sms, kernels->count,
                    kernels->count == 1 ? "" : "s");
        if (gpu->assumed)
            gs_text_add(&text, "%s: %s\n", gpu->name, gpu->assumed);
        if (is_assumed)
            gs_text_add(&text, "assumed: %d threads a block where the kernel declares none (give --threads)\n",
                        ASSUMED_THREADS);
        gs_text_add(&text, "threads registers  shared blocks/SM  occupancy  limit           kernel\n");
    }
    for (size_t i = 0; i < kernels->count; i++)
        all_run &= put_kernel(&text, options, gpu, &kernels->data[i], error);
    gs_print_text(&text, GS_OK, error);
    return all_run ? 0 : 1;
}

/* Shows the kernels of a file; of one that is alone, all that is known. */
static int show_kernels(const struct options *options, const gs_gpu *gpu, gs_file_kernels *kernels, gs_error *error) {
    if (choose_kernels(options, kernels, error) != GS_OK)
        return gs_report(error);
    if (kernels->count > 1 && (options->svg || options->html || options->cluster)) {
        gs_fail(error, GS_E_USAGE, "there are %zu kernels, but --%s is for one: choose it with --kernel",
                kernels->count,
                options->svg    ? "svg"
                : options->html ? "html"
                                : "cluster");
        return gs_report(error);
    }
    if (kernels->count > 1 || options->json)
        return print_kernels(options, gpu, kernels, error);
    struct options one = *options;
    gs_shape *shape = &kernels->data[0].shape;
    bool is_assumed = complete_shape(options, shape);
    one.threads = shape->threads;
    one.registers = shape->registers;
    one.shared_bytes = shape->shared_bytes;
    one.carveout = shape->carveout_percent;
    if (!one.cluster && kernels->data[0].cluster > 1)
        one.cluster = kernels->data[0].cluster;
    if (!options->svg && !options->html)
        printf("%s%s\n", kernels->data[0].name,
               is_assumed ? ", with 256 threads a block, which are assumed (give --threads)" : "");
    return print_occupancy(&one, gpu, error);
}

static int show_file(const struct options *options, const gs_words *words) {
    gs_error error = {.code = GS_OK};
    gs_file_kernels kernels = {0};
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, NULL, &error);
    gs_kernel_file_request request = {.path = words->data[0],
                                      .compiler = options->compiler,
                                      .options = words->data + 1,
                                      .option_count = words->count - 1,
                                      .architecture = gpu ? gs_gpu_architecture(gpu) : 0};
    int status;
    if (!gpu || gs_file_kernels_read(&kernels, &request, &error) != GS_OK)
        status = gs_report(&error);
    else
        status = show_kernels(options, gpu, &kernels, &error);
    gs_file_kernels_clear(&kernels);
    gs_gpu_free(gpu);
    return status;
}

/* ---- recordings ---- */

static gs_code show_recording(const void *given, const char *path, gs_error *error) {
    const struct options *options = given;
    gs_file_kernels kernels = {0};
    gs_gpu_of_runs kept = {0};
    gs_run *run = gs_read_program(path, 0, error);
    const gs_gpu *gpu = run ? gs_gpu_for(&kept, &options->gpu, run, error) : NULL;
    gs_code code = gpu ? gs_file_kernels_of_run(&kernels, run, error) : error->code;
    if (code == GS_OK && show_kernels(options, gpu, &kernels, error) == gs_code_exit(GS_E_USAGE))
        code = GS_E_USAGE;
    gs_file_kernels_clear(&kernels);
    gs_gpu_of_runs_clear(&kept);
    gs_run_free(run);
    return code;
}

/* ---- the command ---- */

static int check_usage(const gs_command *command, const struct options *options, const gs_words *words) {
    if (options->json + options->svg + options->html > 1)
        return gs_usage(command, "--json, --svg and --html exclude each other");
    if (options->output && !options->svg && !options->html)
        return gs_usage(command, "--output goes with --svg and --html");
    if (words->count && options->registers)
        return gs_usage(command, "--registers goes without a file: the kernels of the file have theirs");
    if (!words->count && (!options->threads || !options->registers))
        return gs_usage(command, "give --threads and --registers, or a file with kernels, or -- and a program");
    if (!words->count && (options->kernel || options->compiler))
        return gs_usage(command, "--%s goes with a file", options->kernel ? "kernel" : "compiler");
    return 0;
}

static int show_numbers(const struct options *options) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, NULL, &error);
    int status = gpu ? print_occupancy(options, gpu, &error) : gs_report(&error);
    gs_gpu_free(gpu);
    return status;
}

static int run_occupancy(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    bool is_program = words->count && words->before_dashes == 0;
    int status = check_usage(command, options, words);
    if (status)
        return status;
    if (is_program)
        return gs_with_program(NULL, words, show_recording, options);
    if (words->count && (gs_is_recording(words->data[0]) || gs_is_trace(words->data[0])))
        return show_recording(options, words->data[0], &error) == GS_OK ? 0 : gs_report(&error);
    if (!options->gpu.name)
        return gs_usage(command, "--gpu NAME|FILE is needed (--gpu cuda: the GPU of this machine)");
    return words->count ? show_file(options, words) : show_numbers(options);
}

const gs_command gs_command_occupancy = {
    .name = "occupancy",
    .summary = "Compute how many blocks of a kernel fit on an SM, and which resource is the limit.",
    .usage = "--gpu NAME --threads N --registers N [options] | --gpu NAME [options] FILE [-- COMPILER_OPTION...] | "
             "[options] RECORDING | [options] -- PROGRAM [ARGUMENT...]",
    .details =
        "FILE has kernels: a CUDA source, PTX, a cubin, or a program or library. Registers and shared memory are\n"
        "those of the machine code for the GPU; PTX is assembled by ptxas, and sources are compiled first. A\n"
        "program is recorded, and each of its kernels is shown as it was launched.\n"
        "Exit code 1: a kernel, or its cluster, can never run on this GPU.\n\n"
        "  gridsmith occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768\n"
        "  gridsmith occupancy --gpu h200 kernels/sgemm.cu\n"
        "  gridsmith occupancy --gpu h200 --kernel 'reduce*' ./app\n"
        "  gridsmith occupancy -- python train.py\n"
        "  gridsmith occupancy --gpu h200 --threads 256 --registers 64 --html -o occupancy.html\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.carveout = GS_NO_CARVEOUT},
    .words = {0, SIZE_MAX, NULL},
    .run = run_occupancy,
};
