/*
 * completion.c: gridsmith completion: shell completions, made from the tables of the commands and their options.
 */
#include "cmd.h"
#include "kernels/zoo/zoo.h"

#include <string.h>

/* ---- values of options and words ---- */

/* The GPUs, separated by spaces. */
static void put_gpus(gs_text *text) {
    for (size_t i = 0; gs_gpu_builtin(i); i++)
        gs_text_add(text, "%s%s", i ? " " : "", gs_gpu_builtin(i));
}

/* The known values of an option; none: any value, or a file. */
static void put_values(gs_text *text, const gs_option *option) {
    if (strcmp(option->name, "gpu") == 0)
        put_gpus(text);
    else if (strcmp(option->name, "policy") == 0)
        gs_text_add(text, "paper most-room round-robin");
}

/* The words of a command besides files: its verbs, kernels of the zoo, names of GPUs. */
static void put_words(gs_text *text, const gs_command *command) {
    for (size_t i = 0; i < command->verb_count; i++)
        gs_text_add(text, "%s%s", i ? " " : "", command->verbs[i].name);
    if (strcmp(command->name, "zoo") == 0)
        for (size_t i = 0; gs_zoo_at(i); i++)
            gs_text_add(text, " %s", gs_zoo_at(i)->name);
    if (strcmp(command->name, "gpus") == 0)
        put_gpus(text);
}

static void put_command_names(gs_text *text) {
    for (size_t i = 0; i < gs_command_count; i++)
        gs_text_add(text, "%s%s", i ? " " : "", gs_commands[i]->name);
}

/* ---- bash ---- */

static void put_bash_command(gs_text *text, const gs_command *command) {
    gs_text_add(text, "    %s)\n        options='--help", command->name);
    for (size_t i = 0; i < command->option_count; i++)
        gs_text_add(text, " --%s", command->options[i].name);
    gs_text_add(text, "'\n        words='");
    put_words(text, command);
    gs_text_add(text, "'\n        ;;\n");
}

static void put_bash(gs_text *text) {
    gs_text_add(text, "# Completion for bash: source <(gridsmith completion bash)\n"
                      "_gridsmith() {\n"
                      "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options= words=\n"
                      "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                      "        COMPREPLY=($(compgen -W '--help --version help ");
    put_command_names(text);
    gs_text_add(text, "' -- \"$word\"))\n        return\n    fi\n    case $before in\n    --gpu)\n        words='");
    put_gpus(text);
    gs_text_add(text, "'\n        COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
                      "        return\n        ;;\n    esac\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < gs_command_count; i++)
        put_bash_command(text, gs_commands[i]);
    gs_text_add(text, "    help)\n        words='");
    put_command_names(text);
    gs_text_add(text, "'\n        ;;\n    esac\n"
                      "    case $word in\n"
                      "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
                      "    esac\n}\n"
                      "complete -o filenames -F _gridsmith gridsmith\n");
}

/* ---- zsh ---- */

/* A text inside quotes and brackets of zsh. */
static void put_zsh_text(gs_text *text, const char *words) {
    for (; *words; words++) {
        if (strchr("[]:\\", *words))
            gs_text_add(text, "\\");
        gs_text_add(text, *words == '\'' ? "'\\''" : "%c", *words);
    }
}

static void put_zsh_option(gs_text *text, const gs_option *option) {
    gs_text values = {0};
    put_values(&values, option);
    gs_text_add(text, " \\\n            '%s--%s%s[", option->type == GS_OPTION_LIST ? "*" : "", option->name,
                option->type == GS_OPTION_FLAG ? "" : "=");
    put_zsh_text(text, option->help);
    gs_text_add(text, "]");
    if (option->type != GS_OPTION_FLAG) {
        gs_text_add(text, ":");
        put_zsh_text(text, option->argument);
        gs_text_add(text, values.count ? ":(%s)" : ":_files", values.data ? values.data : "");
    }
    gs_text_add(text, "'");
    gs_text_free(&values);
}

static void put_zsh(gs_text *text) {
    gs_text_add(text, "#compdef gridsmith\n"
                      "# Completion for zsh: put it into a folder of $fpath as _gridsmith\n"
                      "_gridsmith() {\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < gs_command_count; i++) {
        gs_text_add(text, "\n        '%s:", gs_commands[i]->name);
        put_zsh_text(text, gs_commands[i]->summary);
        gs_text_add(text, "'");
    }
    gs_text_add(text, ")\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
                      "    local command=${words[2]}\n    shift words\n    ((CURRENT--))\n    case $command in\n");
    for (size_t i = 0; i < gs_command_count; i++) {
        gs_text words = {0};
        put_words(&words, gs_commands[i]);
        gs_text_add(text, "    %s)\n        _arguments '--help[show the options]'", gs_commands[i]->name);
        for (size_t k = 0; k < gs_commands[i]->option_count; k++)
            put_zsh_option(text, &gs_commands[i]->options[k]);
        if (words.count)
            gs_text_add(text, " \\\n            '*:word:(%s)'", words.data);
        else
            gs_text_add(text, " \\\n            '*:file:_files'");
        gs_text_add(text, "\n        ;;\n");
        gs_text_free(&words);
    }
    gs_text_add(text, "    esac\n}\n_gridsmith \"$@\"\n");
}

/* ---- fish ---- */

static void put_fish_text(gs_text *text, const char *words) {
    gs_text_add(text, " -d '");
    for (; *words; words++)
        gs_text_add(text, strchr("'\\", *words) ? "\\%c" : "%c", *words);
    gs_text_add(text, "'");
}

static void put_fish_option(gs_text *text, const gs_command *command, const gs_option *option) {
    gs_text_add(text, "complete -c gridsmith -n '__fish_seen_subcommand_from %s' -l %s", command->name, option->name);
    if (option->letter)
        gs_text_add(text, " -s %c", option->letter);
    if (option->type != GS_OPTION_FLAG) {
        gs_text_add(text, " -r -a '");
        put_values(text, option);
        gs_text_add(text, "'");
    }
    put_fish_text(text, option->help);
    gs_text_add(text, "\n");
}

static void put_fish(gs_text *text) {
    gs_text_add(text, "# Completion for fish: gridsmith completion fish >~/.config/fish/completions/gridsmith.fish\n");
    for (size_t i = 0; i < gs_command_count; i++) {
        const gs_command *command = gs_commands[i];
        gs_text words = {0};
        put_words(&words, command);
        gs_text_add(text, "complete -c gridsmith -n __fish_use_subcommand -f -a %s", command->name);
        put_fish_text(text, command->summary);
        gs_text_add(text, "\n");
        if (words.count)
            gs_text_add(text, "complete -c gridsmith -n '__fish_seen_subcommand_from %s' -a '%s'\n", command->name,
                        words.data);
        for (size_t k = 0; k < command->option_count; k++)
            put_fish_option(text, command, &command->options[k]);
        gs_text_free(&words);
    }
}

/* ---- the command ---- */

static int run_completion(const gs_command *command, void *given, const gs_words *words) {
    static const struct {
        const char *name;
        void (*put)(gs_text *text);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    gs_error error = {.code = GS_OK};
    (void)given;
    for (size_t i = 0; i < GS_COUNT(shells); i++)
        if (strcmp(words->data[0], shells[i].name) == 0) {
            gs_text text = {.sink = stdout};
            shells[i].put(&text);
            return gs_print_text(&text, GS_OK, &error) == GS_OK ? 0 : gs_report(&error);
        }
    return gs_usage(command, "unknown shell \"%.40s\": use bash, zsh or fish", words->data[0]);
}

const gs_command gs_command_completion = {
    .name = "completion",
    .summary = "Print command-line completions for bash, zsh or fish.",
    .usage = "bash | zsh | fish",
    .details = "  source <(gridsmith completion bash)\n"
               "  gridsmith completion fish >~/.config/fish/completions/gridsmith.fish\n",
    .options_size = 1,
    .words = {1, 1, "give the shell: bash, zsh or fish"},
    .run = run_completion,
};
