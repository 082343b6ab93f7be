/*
 * options.c: the command line by tables: help, parsing, checks, and running the command.
 *
 * A command has its own struct of options: its defaults are copied, then each option writes the member named by its row
 * of the table. An error in a command line gives one line on standard error, and the exit code 2.
 */
#include "cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- help ---- */

enum { HELP_COLUMNS = 80 }; /* where the width of the terminal is not known */

static int option_width(const gs_option *option) {
    return (int)(strlen(option->name) + (option->argument ? strlen(option->argument) + 1 : 0));
}

static void put_usage(gs_text *text, const gs_command *command, int columns) {
    for (size_t i = 0; i < gs_max_u64(command->verb_count, 1); i++) {
        const gs_verb *verb = command->verb_count ? &command->verbs[i] : NULL;
        gs_text line = {0};
        gs_text_add(&line, "%s gridsmith %s %s%s%s", i ? "      " : "usage:", command->name, verb ? verb->name : "",
                    verb ? " " : "", verb ? verb->usage : command->usage);
        gs_text_fold_line(text, line.data, line.count, columns, 11);
        gs_text_put(text, "\n", 1);
        gs_text_free(&line);
    }
}

static void put_verb_options(gs_text *text, const gs_command *command) {
    for (size_t i = 0; i < command->verb_count; i++) {
        gs_text_add(text, "%s  %-10s ", i ? "" : "\nOptions by verb:\n", command->verbs[i].name);
        for (const char *at = command->verbs[i].options; *at; at += strspn(at, " ")) {
            int length = (int)strcspn(at, " ");
            gs_text_add(text, " --%.*s", length, at);
            at += length;
        }
        gs_text_add(text, "\n");
    }
}

static void put_options(gs_text *text, const gs_command *command) {
    int widest = (int)strlen("help");
    for (size_t i = 0; i < command->option_count; i++)
        widest = (int)gs_max(widest, option_width(&command->options[i]));
    for (size_t i = 0; i < command->option_count; i++) {
        const gs_option *option = &command->options[i];
        char letter[] = {'-', option->letter, ',', ' ', '\0'};
        gs_text_add(text, "  %4s--%s%s%s%*s  %s\n", option->letter ? letter : "", option->name,
                    option->argument ? " " : "", option->argument ? option->argument : "",
                    widest - option_width(option), "", option->help);
    }
    gs_text_add(text, "  %4s--help%*s  show this\n", "", widest - 4, "");
}

/* Whether a line of details goes on in the next one: neither begins with a space, as examples do, or has columns. */
static bool is_prose(const char *line, size_t length) {
    const char *columns = strstr(line, "  ");
    return length && line[0] != ' ' && !(columns && columns < line + length);
}

/* The details of a command: prose is filled, examples and tables are folded line by line. */
static void put_details(gs_text *text, const char *details, int columns) {
    gs_text paragraph = {0};
    for (size_t length; *details; details += length + (details[length] == '\n')) {
        length = strcspn(details, "\n");
        const char *next = details + length + (details[length] == '\n');
        bool goes_on = is_prose(details, length) && is_prose(next, strcspn(next, "\n"));
        gs_text_put(&paragraph, details, length);
        gs_text_put(&paragraph, " ", goes_on);
        if (goes_on)
            continue;
        gs_text_fold_line(text, paragraph.data, paragraph.count, columns, is_prose(details, length) ? 0 : -1);
        gs_text_put(text, "\n", 1);
        text->failed |= paragraph.failed;
        gs_text_clear(&paragraph);
    }
    gs_text_free(&paragraph);
}

int gs_help_columns(FILE *file) {
    int columns = gs_columns(file);
    return columns ? columns : HELP_COLUMNS;
}

void gs_print_help(const gs_command *command, FILE *file) {
    int columns = gs_help_columns(file);
    gs_text lines = {0}, text = {.sink = file};
    put_usage(&text, command, columns);
    gs_text_add(&lines, "\n%s\n\n", command->summary);
    put_options(&lines, command);
    put_verb_options(&lines, command);
    gs_text_fold(&text, lines.data, lines.count, columns);
    if (command->details) {
        gs_text_put(&text, "\n", 1);
        put_details(&text, command->details, columns);
    }
    gs_text_flush(&text);
    gs_text_free(&lines);
    gs_text_free(&text);
}

int gs_usage(const gs_command *command, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gridsmith %s: %s; see 'gridsmith %s --help'\n", command->name, text,
            command->help ? command->help : command->name);
    return gs_code_exit(GS_E_USAGE);
}

const char *gs_suggest_option(const gs_command *command, const char *name, char *words, size_t size) {
    gs_similar similar = {.word = name};
    for (size_t i = 0; i < command->option_count; i++)
        gs_similar_try(&similar, command->options[i].name);
    gs_similar_try(&similar, "help");
    bool is_found = similar.name && strlen(name) > 1;
    snprintf(words, size, is_found ? " (did you mean \"--%s\"?)" : "%s", is_found ? similar.name : "");
    return words;
}

/* ---- parsing ---- */

/* A command line while it is parsed. */
struct line {
    const gs_command *command;
    int argc, at;
    char **argv;
    char *options;  /* the command's struct */
    uint64_t given; /* a bit for each row of the table */
    gs_words words;
};

typedef enum parsed { PARSED, PARSED_HELP, PARSED_WRONG, PARSED_NO_MEMORY } parsed;

static bool is_word(const char *name, const char *word, size_t length) {
    return name && strlen(name) == length && strncmp(name, word, length) == 0;
}

static const gs_option *find_option(const gs_command *command, const char *word, size_t length) {
    for (size_t i = 0; i < command->option_count; i++) {
        const gs_option *option = &command->options[i];
        if (is_word(option->name, word, length) || is_word(option->old_name, word, length))
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

static parsed add_word(gs_words *words, const char *word) {
    if (!GS_RESERVE(words, 2))
        return PARSED_NO_MEMORY;
    words->data[words->count++] = word;
    words->data[words->count] = NULL;
    return PARSED;
}

static bool parse_int(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10); /* which skips blanks */
    return !errno && end != text && !*end && !isspace((unsigned char)*text);
}

static parsed store_int(const gs_command *command, const gs_option *option, int64_t *into, const char *value) {
    bool is_size = option->type == GS_OPTION_SIZE;
    const char *size = option->least > 200 << 10 ? "a size, such as 16G," : "a size, such as 4096 or 200K,";
    bool is_read = is_size ? gs_parse_bytes(value, into) : parse_int(value, into);
    if (is_read && *into >= option->least && *into <= option->most)
        return PARSED;
    gs_usage(command, "--%s takes %s from %lld to %lld, not \"%s\"", option->name, is_size ? size : "a whole number",
             (long long)option->least, (long long)option->most, value);
    return PARSED_WRONG;
}

static parsed store_value(struct line *line, const gs_option *option, const char *value) {
    void *at = line->options + option->offset;
    line->given |= (uint64_t)1 << (option - line->command->options);
    switch (option->type) {
    case GS_OPTION_FLAG:
        *(bool *)at = true;
        return PARSED;
    case GS_OPTION_TEXT:
        *(const char **)at = value;
        return PARSED;
    case GS_OPTION_INT:
    case GS_OPTION_SIZE:
        return store_int(line->command, option, at, value);
    case GS_OPTION_LIST:
        return add_word(at, value);
    }
    return PARSED_WRONG;
}

static parsed refuse_unknown(const gs_command *command, const char *word) {
    char name[64], suggestion[100];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
    if (command->no_shard && strcmp(name, "shard") == 0) {
        gs_usage(command, "%s", command->no_shard);
        return PARSED_WRONG;
    }
    if (strcmp(name, "help") == 0)
        gs_usage(command, "--help takes no value");
    else
        gs_usage(command, "unknown option %.80s%s", word,
                 gs_suggest_option(command, name, suggestion, sizeof suggestion));
    return PARSED_WRONG;
}

/* Reads one option, whose value may be the next word. */
static parsed parse_option(struct line *line) {
    const char *word = line->argv[line->at], *value;
    const gs_option *option;
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        option = find_option(line->command, word + 2, length);
        value = word[2 + length] ? word + 3 + length : NULL;
    } else {
        bool is_long_name = word[2] && find_option(line->command, word + 1, strcspn(word + 1, "="));
        option = is_long_name ? NULL : find_letter(line->command, word[1]);
        value = word[2] ? word + 2 : NULL;
    }
    if (!option)
        return refuse_unknown(line->command, word);
    if (option->type == GS_OPTION_FLAG && value) {
        gs_usage(line->command, "--%s takes no value", option->name);
        return PARSED_WRONG;
    }
    if (option->type != GS_OPTION_FLAG && !value && ++line->at < line->argc)
        value = line->argv[line->at];
    if (option->type != GS_OPTION_FLAG && (!value || (!*value && !option->may_be_empty))) {
        gs_usage(line->command, "--%s needs a value: %s", option->name, option->argument);
        return PARSED_WRONG;
    }
    return store_value(line, option, value);
}

static parsed check_required(const struct line *line) {
    for (size_t i = 0; i < line->command->option_count; i++) {
        const gs_option *option = &line->command->options[i];
        if (option->required && !(line->given >> i & 1)) {
            gs_usage(line->command, "--%s %s is needed", option->name, option->argument);
            return PARSED_WRONG;
        }
    }
    return PARSED;
}

/* Fills the options and the words. Prints help or an error. */
static parsed parse_line(struct line *line) {
    bool has_only_words = false; /* after -- */
    parsed result = PARSED;
    line->words.before_dashes = SIZE_MAX;
    for (line->at = 1; line->at < line->argc && result == PARSED; line->at++) {
        const char *word = line->argv[line->at];
        if (has_only_words || word[0] != '-' || !word[1]) {
            result = add_word(&line->words, word);
            has_only_words = has_only_words || line->command->takes_program;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            gs_print_help(line->command, stdout);
            return PARSED_HELP;
        } else if (strcmp(word, "--") == 0) {
            has_only_words = true;
            line->words.before_dashes = line->words.count;
        } else {
            result = parse_option(line);
        }
    }
    line->words.before_dashes = gs_min_u64(line->words.before_dashes, line->words.count);
    return result == PARSED ? check_required(line) : result;
}

/* ---- running ---- */

static int check_words(const gs_command *command, const gs_word_count *wanted, const gs_words *words) {
    char suggestion[100];
    if (words->count >= wanted->least && words->count <= wanted->most)
        return 0;
    if (!wanted->most)
        return gs_usage(command, "\"%.60s\" is not an option%s", words->data[0],
                        gs_suggest_option(command, words->data[0], suggestion, sizeof suggestion));
    for (size_t i = 0; i < words->count; i++)
        if (find_option(command, words->data[i], strlen(words->data[i])))
            return gs_usage(command, "%s (did you mean \"--%s\"?)", wanted->mistake, words->data[i]);
    return gs_usage(command, "%s", wanted->mistake);
}

static bool takes_option(const gs_verb *verb, const char *name) {
    size_t length = strlen(name);
    for (const char *at = verb->options; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, length) == 0)
            return true;
        at += word;
    }
    return false;
}

/* "list, run or bench": the verbs, or those with an option. */
static void put_verbs(gs_text *text, const gs_command *command, const char *option, const char *last_word) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < command->verb_count; i++)
        count += !option || takes_option(&command->verbs[i], option);
    for (size_t i = 0; i < command->verb_count; i++) {
        if (option && !takes_option(&command->verbs[i], option))
            continue;
        gs_text_add(text, "%s%s", at == 0 ? "" : at + 1 < count ? ", " : last_word, command->verbs[i].name);
        at++;
    }
}

static int refuse_verb(const struct line *line) {
    gs_text text = {0};
    int status;
    put_verbs(&text, line->command, NULL, " or ");
    gs_similar similar = {.word = line->words.count ? line->words.data[0] : ""};
    for (size_t i = 0; i < line->command->verb_count; i++)
        gs_similar_try(&similar, line->command->verbs[i].name);
    if (line->words.count)
        status = gs_usage(line->command, "unknown verb \"%.40s\"%s: use %s", line->words.data[0],
                          gs_similar_words(&similar), text.failed ? "another" : text.data);
    else
        status = gs_usage(line->command, "give a verb: %s", text.failed ? "see the help" : text.data);
    gs_text_free(&text);
    return status;
}

static int refuse_option(const gs_command *command, const gs_verb *verb, const char *option) {
    gs_text text = {0};
    put_verbs(&text, command, option, " and ");
    int status = gs_usage(command, "--%s goes with %s, not with %s", option, text.failed ? "other verbs" : text.data,
                          verb->name);
    gs_text_free(&text);
    return status;
}

static const gs_verb *find_verb(const gs_command *command, const gs_words *words) {
    for (size_t i = 0; i < command->verb_count && words->count; i++)
        if (strcmp(command->verbs[i].name, words->data[0]) == 0)
            return &command->verbs[i];
    return NULL;
}

/* 0: the verb takes all given options. */
static int check_options(const struct line *line, const gs_verb *verb) {
    const gs_command *command = line->command;
    for (size_t i = 0; i < command->option_count; i++)
        if (line->given >> i & 1 && !takes_option(verb, command->options[i].name))
            return refuse_option(command, verb, command->options[i].name);
    return 0;
}

static int run_verb(const struct line *line) {
    const gs_command *command = line->command;
    const gs_verb *verb = find_verb(command, &line->words);
    int wrong = verb ? check_options(line, verb) : refuse_verb(line);
    if (wrong)
        return wrong;
    gs_words rest = {.data = line->words.data + 1,
                     .count = line->words.count - 1,
                     .before_dashes = line->words.before_dashes - (line->words.before_dashes > 0)};
    int status = check_words(command, &verb->words, &rest);
    return status ? status : verb->run(command, line->options, &rest);
}

/* A word that is the name of a GPU, and of no file, was meant for --gpu. */
static int check_gpu_words(const struct line *line) {
    const gs_words *words = &line->words;
    if (!find_option(line->command, "gpu", 3))
        return 0;
    for (size_t i = 0; i < words->count && i < words->before_dashes; i++)
        for (size_t k = 0; gs_gpu_builtin(k); k++)
            if (strcmp(gs_gpu_builtin(k), words->data[i]) == 0 && access(words->data[i], F_OK) != 0)
                return gs_usage(line->command, "%s is a GPU: give it as --gpu %s", words->data[i], words->data[i]);
    return 0;
}

static int run_command(const struct line *line) {
    int status = check_gpu_words(line);
    if (!status)
        status = check_words(line->command, &line->command->words, &line->words);
    return status ? status : line->command->run(line->command, line->options, &line->words);
}

static void free_line(struct line *line) {
    for (size_t i = 0; i < line->command->option_count && line->options; i++)
        if (line->command->options[i].type == GS_OPTION_LIST) {
            void *at = line->options + line->command->options[i].offset;
            free(((gs_words *)at)->data);
        }
    free(line->options);
    free(line->words.data);
}

/* ---- pages: --html or --svg without -o on a terminal, which they would flood, makes a new file ---- */

/* The place of the value of --output, if a page or picture is asked for without it; or NULL. */
static const char **find_page_output(const struct line *line, const char **ending) {
    const gs_option *output = find_option(line->command, "output", 6);
    const gs_option *kinds[] = {find_option(line->command, "html", 4), find_option(line->command, "svg", 3)};
    for (size_t i = 0; i < GS_COUNT(kinds) && output; i++) {
        void *value = line->options + output->offset;
        if (!kinds[i] || kinds[i]->type != GS_OPTION_FLAG || *(const char **)value)
            continue;
        *ending = kinds[i]->name;
        if (*(const bool *)(line->options + kinds[i]->offset))
            return value;
    }
    return NULL;
}

/* A name for the page in a new folder; NULL: there is no terminal, or no folder. The caller frees it. */
static char *make_page_name(const gs_command *command, const char *ending) {
    gs_error error;
    gs_text path = {0};
    char *folder = isatty(STDOUT_FILENO) ? gs_folder_make_in(NULL, "gridsmith-page", &error) : NULL;
    if (folder)
        gs_text_add(&path, "%s/%s.%s", folder, command->name, ending);
    free(folder);
    return path.data;
}

/* Says where the page is, and shows it in a browser where there is a display. The folder of a page that was not written
   is removed. */
static void end_page(const gs_command *command, char *path) {
    const char *const words[] = {"xdg-open", path, NULL};
    const gs_process_options browser = {.words = words, .output = "/dev/null", .has_own_session = true};
    pid_t process;
    if (access(path, F_OK) != 0) {
        *strrchr(path, '/') = '\0';
        gs_folder_remove(path);
        return;
    }
    fprintf(stderr, "gridsmith %s: written to %s; -o FILE chooses another place\n", command->name, path);
    if (getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"))
        gs_process_try(&browser, &process);
}

static int run_line(const struct line *line) {
    const char *ending = NULL, **output = find_page_output(line, &ending);
    char *page = output ? make_page_name(line->command, ending) : NULL;
    if (page)
        *output = page;
    int status = line->command->verb_count ? run_verb(line) : run_command(line);
    if (page)
        end_page(line->command, page);
    free(page);
    return status;
}

static int check_line(const struct line *line) {
    const gs_verb *verb = find_verb(line->command, &line->words);
    if (!line->command->verb_count)
        return check_words(line->command, &line->command->words, &line->words);
    return verb ? check_options(line, verb) : refuse_verb(line);
}

/* Parses the command line, and runs the command. */
static int with_line(const gs_command *command, int argc, char **argv, int (*go_on)(const struct line *line)) {
    struct line line = {.command = command, .argc = argc, .argv = argv, .options = calloc(1, command->options_size)};
    int status = 0;
    if (line.options && command->defaults)
        memcpy(line.options, command->defaults, command->options_size);
    switch (line.options ? parse_line(&line) : PARSED_NO_MEMORY) {
    case PARSED:
        status = go_on(&line);
        break;
    case PARSED_HELP:
        break;
    case PARSED_WRONG:
        status = gs_code_exit(GS_E_USAGE);
        break;
    case PARSED_NO_MEMORY:
        status = gs_report_memory();
        break;
    }
    free_line(&line);
    return status;
}

int gs_command_run(const gs_command *command, int argc, char **argv) {
    return with_line(command, argc, argv, run_line);
}

int gs_command_parse(const gs_command *command, int argc, char **argv) {
    return with_line(command, argc, argv, check_line);
}
