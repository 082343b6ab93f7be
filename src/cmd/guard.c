/*
 * guard.c: gridsmith guard: which kernels of a file can be stopped at a block boundary, without PTX.
 *
 * 'gridsmith run' loads a second copy of a module, in which kernels have a guard. A kernel can be stopped if it can
 * have one, and if the copy of its module can use the variables of the first. Here those are taken for found.
 */
#include "cmd.h"
#include "kernels/ptx/ptx.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>

struct options {
    const char *output;
};

static const gs_option option_table[] = {
    GS_OUTPUT(struct options, output, "write the cubin with guards to FILE; the input must have one cubin"),
};

/* Why kernels for an architecture cannot be stopped, and how many; NULL: those that can be. */
struct row {
    int architecture;
    char reason[120];
    size_t kernels;
};

struct report {
    struct {
        struct row *data;
        size_t count, capacity;
    } rows;
    size_t cubins, objects; /* objects: they must be linked first */
    gs_text written;        /* the last cubin, with guards */
};

static bool count_kernel(struct report *report, int architecture, const char *reason) {
    struct row row = {.architecture = architecture, .kernels = 1};
    snprintf(row.reason, sizeof row.reason, "%.*s", (int)strcspn(reason, ":"), reason);
    for (size_t i = 0; i < report->rows.count; i++)
        if (report->rows.data[i].architecture == architecture && !strcmp(report->rows.data[i].reason, row.reason)) {
            report->rows.data[i].kernels++;
            return true;
        }
    return GS_PUSH(&report->rows, row);
}

static bool find_any(void *context, const char *name, uint64_t size, uint64_t *address) {
    (void)context, (void)name, (void)size;
    *address = 0;
    return true;
}

/* Counts the kernels of an image, each with its own reason, or else with that of the module. */
static bool count_kernels(struct report *report, const gs_sass_image *image, const gs_guarded_list *list,
                          const char *reason) {
    bool is_well = true;
    for (size_t i = 0; i < image->symbols.count && is_well; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        const char *own = NULL, *name = gs_sass_symbol_name(image, symbol);
        if (!gs_sass_is_kernel(symbol))
            continue;
        for (size_t k = 0; k < list->count && !own; k++)
            own = strcmp(list->data[k].kernel, name) == 0 ? list->data[k].refused : NULL;
        is_well = count_kernel(report, gs_sass_architecture(image), own ? own : reason);
    }
    return is_well;
}

static gs_code guard_cubin(void *context, const char *bytes, size_t size, gs_error *error) {
    enum { TYPE_AT = 16, OBJECT = 1 };
    struct report *report = context;
    gs_guarded_list list = {0};
    gs_sass_image image;
    gs_error refusal = {.code = GS_OK};
    gs_code code = gs_sass_read(&image, bytes, size, error);
    bool is_object = code == GS_OK && bytes[TYPE_AT] == OBJECT;
    report->cubins += !is_object;
    report->objects += is_object;
    if (code == GS_OK && !is_object) {
        gs_text_clear(&report->written);
        code = gs_sass_guard(&image, &list, &refusal);
        if (code == GS_OK)
            code = gs_sass_write(&image, &report->written, error);
        if (code == GS_OK)
            code = gs_sass_share_variables(&image, NULL, find_any, NULL, &refusal);
        if (code == GS_OK || code == GS_E_REFUSED)
            code = count_kernels(report, &image, &list, refusal.message) ? GS_OK : gs_fail_memory(error);
        else if (!error->message[0])
            *error = refusal;
    }
    gs_sass_free(&image);
    free(list.data);
    return code;
}

static int compare_rows(const void *one, const void *other) {
    const struct row *a = one, *b = other;
    return a->architecture != b->architecture ? a->architecture - b->architecture
           : !a->reason[0] != !b->reason[0]   ? (a->reason[0] ? 1 : -1)
           : a->kernels != b->kernels         ? (a->kernels < b->kernels ? 1 : -1)
                                              : strcmp(a->reason, b->reason);
}

static size_t count_stoppable(const struct report *report) {
    size_t total = 0;
    for (size_t i = 0; i < report->rows.count; i++)
        total += report->rows.data[i].reason[0] ? 0 : report->rows.data[i].kernels;
    return total;
}

static size_t count_all(const struct report *report) {
    size_t total = 0;
    for (size_t i = 0; i < report->rows.count; i++)
        total += report->rows.data[i].kernels;
    return total;
}

static void print_rows(struct report *report) {
    if (report->rows.count)
        qsort(report->rows.data, report->rows.count, sizeof *report->rows.data, compare_rows);
    printf("kernels  of      can be stopped\n");
    for (size_t i = 0; i < report->rows.count; i++) {
        const struct row *row = &report->rows.data[i];
        printf("%7zu  sm_%-4d %s%s\n", row->kernels, row->architecture, row->reason[0] ? "no: " : "yes", row->reason);
    }
    printf("cubins: %zu; objects that must be linked first: %zu\n", report->cubins, report->objects);
}

static int write_cubin(const struct report *report, const char *name, const char *output, gs_error *error) {
    size_t kernels = count_all(report), guarded = count_stoppable(report);
    if (gs_output_text(output, &report->written, error) != GS_OK)
        return gs_report(error);
    if (guarded < kernels)
        fprintf(stderr, "gridsmith guard: %zu of %zu kernels %s no guard; 'gridsmith guard %s' says why\n",
                kernels - guarded, kernels, kernels - guarded == 1 ? "has" : "have", name);
    return 0;
}

static int run_guard(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    struct report report = {.cubins = 0};
    gs_error error = {.code = GS_OK};
    int status;
    if (gs_ptx_cubins_of_file(words->data[0], guard_cubin, &report, &error) != GS_OK)
        status = gs_report(&error);
    else if (options->output && report.cubins > 1)
        status = gs_usage(command, "-o writes one cubin, but the file has %zu", report.cubins);
    else if (options->output && count_stoppable(&report))
        status = write_cubin(&report, words->data[0], options->output, &error);
    else {
        print_rows(&report);
        status = count_stoppable(&report) ? 0 : 1;
    }
    gs_text_free(&report.written);
    free(report.rows.data);
    return status;
}

const gs_command gs_command_guard = {
    .name = "guard",
    .summary = "Count the kernels of a program, library or cubin that can be stopped at a block boundary.",
    .usage = "[-o FILE] FILE",
    .details = "Machine code is enough; no PTX is needed. Exit code 1: no kernel can be stopped;\n"
               "then nothing is written.\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, 1, "give one file with kernels"},
    .run = run_guard,
};
