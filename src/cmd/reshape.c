/*
 * reshape.c: gridsmith reshape: a kernel of a CUDA source in another form.
 */
#include "reshape/reshape.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

struct reshape {
    const char *kernel, *form, *output;
    bool json;
};

static const gs_option options[] = {
    {.name = "kernel",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, kernel),
     .argument = "NAME",
     .help = "the kernel; all definitions of that name are reshaped"},
    {.name = "as",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, form),
     .argument = "FORM",
     .help = "persistent or confined",
     .required = true},
    {.name = "output",
     .letter = 'o',
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, output),
     .argument = "FILE",
     .help = "where to write the source (default: standard output)"},
    {.name = "json",
     .offset = offsetof(struct reshape, json),
     .help = "write gridsmith.reshape/1: for each kernel of the file whether it can be done, and why not"},
};

static int write_text(const gs_text *text, const char *path, gs_error *error) {
    gs_output output;
    if (gs_output_open(&output, path, error) != GS_OK)
        return gs_report(error);
    bool written = fwrite(text->data, 1, text->count, output.file) == text->count;
    if (!written) {
        gs_fail_system(error, "write", path ? path : "standard output");
        gs_output_drop(&output);
        return gs_report(error);
    }
    return gs_output_keep(&output, error) == GS_OK ? 0 : gs_report(error);
}

static int reshape_source(const struct reshape *asked, const gs_source *source, const gs_reshape_options *wanted,
                          gs_error *error) {
    gs_text text = {0};
    gs_report_counts counts = {0};
    gs_code code = GS_OK;
    int status = 0;
    if (asked->kernel)
        code = gs_reshape(source, asked->kernel, wanted, &text, error);
    bool is_refused = code == GS_E_REFUSED;
    if (code != GS_OK && (!is_refused || !asked->json)) {
        status = gs_report(error);
    } else if (!is_refused && asked->kernel && (asked->output || !asked->json)) {
        status = write_text(&text, asked->output, error);
    }
    if (asked->json && (code == GS_OK || is_refused) && status == 0) {
        gs_text_clear(&text);
        code = gs_reshape_report(source, wanted, &counts, &text, error);
        status = code == GS_OK ? write_text(&text, NULL, error) : gs_report(error);
        bool is_no = asked->kernel ? is_refused : counts.accepted < counts.kernels;
        status = status ? status : is_no;
    }
    gs_text_free(&text);
    return status;
}

int gs_read_source(const char *path, char **text, char *folder, size_t size, gs_source *source, gs_error *error) {
    size_t count;
    const char *slash = strrchr(path, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    gs_code code = gs_input_all(path, (size_t)64 << 20, text, &count, error);
    if (code == GS_OK)
        code = gs_source_read(source, gs_input_name(path), *text, count, error);
    return code == GS_OK ? 0 : gs_report(error);
}

static int run(const gs_command *command, int argc, char **argv) {
    struct reshape asked = {0};
    gs_words files;
    gs_error error = {.code = GS_OK};
    gs_reshape_options wanted = {0};
    char *text = NULL, folder[400];
    gs_source source = {0};
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && files.count != 1)
        status = gs_usage(command, files.count ? "one source at a time" : "which source?");
    else if (parsed == GS_PARSED && !asked.kernel && !asked.json)
        status = gs_usage(command, "--kernel NAME is needed, or --json for all kernels of the file");
    else if (parsed == GS_PARSED && (!gs_form_find(asked.form, &wanted.form) || wanted.form > GS_FORM_CONFINED))
        status = gs_usage(command, "--as takes persistent or confined, not \"%.40s\"", asked.form);
    else if (parsed == GS_PARSED) {
        status = gs_read_source(files.data[0], &text, folder, sizeof folder, &source, &error);
        wanted.folder = folder;
        if (status == 0)
            status = reshape_source(&asked, &source, &wanted, &error);
    }
    gs_source_free(&source);
    free(text);
    free(files.data);
    return status;
}

const gs_command gs_command_reshape = {
    .name = "reshape",
    .summary = "A kernel of a CUDA source in another form: CUDA source in, CUDA source out.",
    .usage = "FILE.cu --kernel NAME --as FORM [-o OUT.cu] [options]",
    .details = "persistent: a few workers an SM loop over the blocks of the grid.\n"
               "confined:   workers stay on some SMs, take tasks from a queue, stop at a signal, and go on later.\n\n"
               "Exit code 1: it cannot be done safely; the place and the reason are on standard error.\n\n"
               "  gridsmith reshape kernels/reduce.cu --kernel reduce --as persistent -o out.cu\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
