/*
 * options.c: the command line, errors and the choice of a GPU, the same for every command.
 */
#include "cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- help ---- */

static int option_width(const gs_option *option) {
    return (int)(strlen(option->name) + (option->argument ? strlen(option->argument) + 1 : 0));
}

void gs_print_help(const gs_command *command, FILE *file) {
    int widest = 4;
    for (size_t i = 0; i < command->option_count; i++)
        if (option_width(&command->options[i]) > widest)
            widest = option_width(&command->options[i]);
    fprintf(file, "usage: gridsmith %s %s\n\n%s\n\n", command->name, command->usage, command->summary);
    for (size_t i = 0; i < command->option_count; i++) {
        const gs_option *option = &command->options[i];
        char letter[] = {'-', option->letter, ',', ' ', '\0'};
        fprintf(file, "  %4s--%s%s%s%*s  %s\n", option->letter ? letter : "", option->name, option->argument ? " " : "",
                option->argument ? option->argument : "", widest - option_width(option), "", option->help);
    }
    fprintf(file, "  %4s--help%*s  show this\n", "", widest - 4, "");
    if (command->details)
        fprintf(file, "\n%s", command->details);
}

/* ---- errors ---- */

int gs_report(const gs_error *error) {
    char text[sizeof error->message + sizeof error->file + 64];
    fprintf(stderr, "gridsmith: %s\n", gs_error_text(error, text, sizeof text));
    if (error->excerpt[0] && isatty(STDERR_FILENO))
        fprintf(stderr, "  %s\n  %*s^\n", error->excerpt, error->caret, "");
    return gs_code_exit(error->code);
}

int gs_usage(const gs_command *command, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gridsmith %s: %s; see 'gridsmith %s --help'\n", command->name, text, command->name);
    return gs_code_exit(GS_E_USAGE);
}

/* ---- parsing ---- */

static const gs_option *find_option(const gs_command *command, const char *word, size_t length) {
    for (size_t i = 0; i < command->option_count; i++) {
        const gs_option *option = &command->options[i];
        if (strlen(option->name) == length && strncmp(option->name, word, length) == 0)
            return option;
    }
    return NULL;
}

static const gs_option *find_letter(const gs_command *command, char letter) {
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

static bool add_word(gs_words *words, const char *word) {
    if (!GS_RESERVE(words, 1))
        return false;
    words->data[words->count++] = word;
    return true;
}

static bool store_int(const gs_command *command, const gs_option *option, int64_t *into, const char *value) {
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < option->least || number > option->most) {
        gs_usage(command, "--%s takes a whole number from %lld to %lld, not \"%s\"", option->name,
                 (long long)option->least, (long long)option->most, value);
        return false;
    }
    *into = number;
    return true;
}

static bool store(const gs_command *command, const gs_option *option, char *into, const char *value) {
    void *at = into + option->offset;
    switch (option->type) {
    case GS_OPTION_FLAG:
        *(bool *)at = true;
        return true;
    case GS_OPTION_TEXT:
        *(const char **)at = value;
        return true;
    case GS_OPTION_INT:
        return store_int(command, option, at, value);
    case GS_OPTION_LIST:
        return add_word(at, value);
    }
    return false;
}

/* Reads one option, which may take the next word as its value. `*at` is moved past what was used. */
static bool parse_option(const gs_command *command, int argc, char **argv, int *at, char *into,
                         const gs_option **found) {
    const char *word = argv[*at], *value = NULL;
    const gs_option *option;
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        option = find_option(command, word + 2, length);
        value = word[2 + length] ? word + 3 + length : NULL;
    } else {
        option = find_letter(command, word[1]);
        value = word[2] ? word + 2 : NULL;
    }
    *found = option;
    if (!option) {
        gs_usage(command, "unknown option %s", word);
        return false;
    }
    if (option->type == GS_OPTION_FLAG && value) {
        gs_usage(command, "--%s takes no value", option->name);
        return false;
    }
    if (option->type != GS_OPTION_FLAG && !value && ++*at < argc)
        value = argv[*at];
    if (option->type != GS_OPTION_FLAG && !value) {
        gs_usage(command, "--%s needs a value: %s", option->name, option->argument);
        return false;
    }
    return store(command, option, into, value);
}

static bool check_required(const gs_command *command, uint64_t given) {
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].required && !(given >> i & 1)) {
            gs_usage(command, "--%s %s is needed", command->options[i].name, command->options[i].argument);
            return false;
        }
    return true;
}

gs_parsed gs_parse(const gs_command *command, int argc, char **argv, void *into, gs_words *files) {
    bool only_files = false;
    uint64_t given = 0;
    *files = (gs_words){0};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_files && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            gs_print_help(command, stdout);
            return GS_PARSED_HELP;
        }
        if (!only_files && strcmp(word, "--") == 0) {
            only_files = true;
        } else if (!only_files && word[0] == '-' && word[1]) {
            const gs_option *option;
            if (!parse_option(command, argc, argv, &i, into, &option))
                return GS_PARSED_WRONG;
            given |= (uint64_t)1 << (option - command->options);
        } else if (!add_word(files, word)) {
            return GS_PARSED_WRONG;
        }
    }
    return check_required(command, given) ? GS_PARSED : GS_PARSED_WRONG;
}

/* ---- GPUs ---- */

static gs_code apply_setting(gs_gpu *gpu, const char *setting, gs_error *error) {
    char name[64];
    size_t length = strcspn(setting, "=");
    if (!setting[length] || length >= sizeof name)
        return gs_fail(error, GS_E_USAGE, "--set takes MECHANISM=VALUE, not \"%.60s\"", setting);
    memcpy(name, setting, length);
    name[length] = '\0';
    return gs_gpu_set(gpu, name, setting + length + 1, error);
}

/* The built-in GPU that a run names. */
static gs_gpu *open_gpu_of(const gs_run *run, gs_error *error) {
    gs_step root = {0}, gpu = {.up = &root, .key = "gpu"};
    if (!run->gpu) {
        gs_json_fail(&run->source, &root, false, error,
                     "the run names no GPU: use --gpu NAME (see 'gridsmith gpus'), or add \"gpu\" to the run");
        return NULL;
    }
    for (size_t i = 0; gs_gpu_builtin(i); i++)
        if (strcmp(gs_gpu_builtin(i), run->gpu) == 0)
            return gs_gpu_open(run->gpu, error);
    gs_json_fail(&run->source, &gpu, false, error,
                 "no built-in GPU is called \"%.60s\": see 'gridsmith gpus', or use --gpu FILE", run->gpu);
    return NULL;
}

gs_code gs_apply_choice(const gs_gpu_choice *choice, gs_gpu *gpu, gs_error *error) {
    gs_code code = choice->policy ? gs_gpu_use(gpu, choice->policy, error) : GS_OK;
    for (size_t i = 0; i < choice->settings.count && code == GS_OK; i++)
        code = apply_setting(gpu, choice->settings.data[i], error);
    return code;
}

gs_gpu *gs_choose_gpu(const gs_gpu_choice *choice, const gs_run *run, gs_error *error) {
    gs_gpu *gpu = choice->name || !run ? gs_gpu_open(choice->name, error) : open_gpu_of(run, error);
    if (!gpu)
        return NULL;
    if (gs_apply_choice(choice, gpu, error) == GS_OK)
        return gpu;
    gs_gpu_free(gpu);
    return NULL;
}

const gs_gpu *gs_gpu_for(gs_gpu_of_runs *kept, const gs_gpu_choice *choice, const gs_run *run, gs_error *error) {
    const char *wanted = choice->name ? choice->name : run->gpu;
    if (kept->gpu && wanted && kept->name && strcmp(kept->name, wanted) == 0)
        return kept->gpu;
    gs_gpu_of_runs_clear(kept);
    kept->name = wanted ? strdup(wanted) : NULL;
    kept->gpu = gs_choose_gpu(choice, run, error);
    return kept->gpu;
}

void gs_gpu_of_runs_clear(gs_gpu_of_runs *kept) {
    gs_gpu_free(kept->gpu);
    free(kept->name);
    *kept = (gs_gpu_of_runs){0};
}
