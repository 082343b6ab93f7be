/*
 * cmd.h: shared by the subcommands.
 *
 *   options.c   parses, checks and explains the command line by tables
 *   shared.c    errors on standard error, text on standard output, GPUs by name, CUDA sources
 *
 * A command is a gs_command: a struct that its options fill, the struct's defaults, a table of options, and a function.
 * main.c finds the command, and gs_command_run does the rest.
 */
#ifndef GS_CMD_H
#define GS_CMD_H

#include "model/gpu/gpu.h"
#include "model/run/run.h"
#include "model/view/view.h"

/* ---- options: one table feeds the parser, the checks and the help ---- */

typedef enum gs_option_type {
    GS_OPTION_FLAG, /* bool */
    GS_OPTION_TEXT, /* const char * */
    GS_OPTION_INT,  /* int64_t, from least to most */
    GS_OPTION_SIZE, /* the same, in bytes; may be written as 200K */
    GS_OPTION_LIST  /* gs_words: may be given several times */
} gs_option_type;

typedef struct gs_option {
    const char *name;     /* without the dashes */
    const char *old_name; /* an older name that still works, or NULL */
    char letter;          /* or 0 */
    gs_option_type type;
    size_t offset; /* in the command's own struct */
    const char *argument, *help;
    int64_t least, most;
    bool required;
    bool may_be_empty; /* a text that means something when it is empty */
} gs_option;

typedef struct gs_words {
    const char **data; /* after the last one stands NULL, unless there are none; the words themselves are not owned */
    size_t count, capacity;
    size_t before_dashes; /* of the words of a command line: how many stand before "--" */
} gs_words;

/* Rows of an option table. `owner` is the struct that the options fill, `field` the member for this one. A member of
   another type does not compile. */
#define GS_FLAG(owner, option, field, words) GS_OPTION_ROW(owner, option, field, FLAG, bool, NULL, words)
#define GS_TEXT(owner, option, field, value, words)                                                                    \
    GS_OPTION_ROW(owner, option, field, TEXT, const char *, value, words)
#define GS_TEXT_OR_EMPTY(owner, option, field, value, words)                                                           \
    GS_OPTION_ROW(owner, option, field, TEXT, const char *, value, words, .may_be_empty = true)
#define GS_LIST(owner, option, field, value, words) GS_OPTION_ROW(owner, option, field, LIST, gs_words, value, words)
#define GS_INT(owner, option, field, value, from, to, words)                                                           \
    GS_OPTION_ROW(owner, option, field, INT, int64_t, value, words, .least = from, .most = to)
#define GS_SIZE(owner, option, field, from, to, words)                                                                 \
    GS_OPTION_ROW(owner, option, field, SIZE, int64_t, "BYTES", words, .least = from, .most = to)

/* A text whose option had another name, which still works. */
#define GS_TEXT_RENAMED(owner, option, old, field, value, words)                                                       \
    GS_OPTION_ROW(owner, option, field, TEXT, const char *, value, words, .old_name = old)
#define GS_INT_RENAMED(owner, option, old, field, value, from, to, words)                                              \
    GS_OPTION_ROW(owner, option, field, INT, int64_t, value, words, .least = from, .most = to, .old_name = old)

/* The same for required options. */
#define GS_TEXT_REQUIRED(owner, option, field, value, words)                                                           \
    GS_OPTION_ROW(owner, option, field, TEXT, const char *, value, words, .required = true)
#define GS_INT_REQUIRED(owner, option, field, value, from, to, words)                                                  \
    GS_OPTION_ROW(owner, option, field, INT, int64_t, value, words, .least = from, .most = to, .required = true)

/* -o FILE, --output FILE */
#define GS_OUTPUT(owner, field, words)                                                                                 \
    GS_OPTION_ROW(owner, "output", field, TEXT, const char *, "FILE", words, .letter = 'o')

/* --gpu, --like, --sms, --policy and --set, which fill a gs_gpu_choice. */
#define GS_GPU_OPTIONS(owner, field)                                                                                   \
    GS_TEXT(                                                                                                           \
        owner, "gpu", field.name, "NAME|FILE",                                                                         \
        "the GPU: a name from 'gridsmith gpus' or of the driver, a description, or cuda[:N] for one of this machine"), \
        GS_TEXT(owner, "like", field.like, "NAME|FILE", "a GPU without a description, assumed to be like this one"),   \
        GS_INT(owner, "sms", field.sms, "N", 1, GS_MAX_SMS, "as if the GPU had N SMs, without clusters"),              \
        GS_TEXT(owner, "policy", field.policy, "NAME",                                                                 \
                "paper, most-room or round-robin, instead of the GPU's mechanisms"),                                   \
        GS_LIST(owner, "set", field.settings, "MECHANISM=VALUE", "change one mechanism; may be repeated")

/* --device, for commands that can use any. */
#define GS_DEVICE_OPTION(owner, field)                                                                                 \
    GS_TEXT_REQUIRED(owner, "device", field, "DEVICE",                                                                 \
                     "cuda[:N], replay:FILE or model:GPU[,MECHANISM=VALUE]...[,skip=SM]")

/* --socket, for commands that talk to a daemon. */
#define GS_SOCKET_OPTION(owner, field)                                                                                 \
    GS_TEXT(owner, "socket", field, "PATH",                                                                            \
            "socket of the daemon (default: $GRIDSMITH_SOCKET, or gridsmith.sock in $XDG_RUNTIME_DIR or "              \
            "/tmp/gridsmith-UID)")

#define GS_OPTION_ROW(owner, option, field, kind, c_type, value, ...)                                                  \
    {                                                                                                                  \
        .name = option, .type = GS_OPTION_##kind,                                                                      \
        .offset = offsetof(owner, field) + _Generic(((owner *)0)->field, c_type : 0), .argument = value,               \
        .help = __VA_ARGS__                                                                                            \
    }

/* ---- commands ---- */

struct gs_command;

/* Runs a command with its options and the other words of the command line; returns the exit code. */
typedef int gs_command_function(const struct gs_command *command, void *options, const gs_words *words);

/* The number of words besides options; by default none. */
typedef struct gs_word_count {
    size_t least, most;
    const char *mistake; /* the message otherwise: "give one file of runs" */
} gs_word_count;

/* A part of a command, named by its first word: the "run" of 'gridsmith zoo run'. */
typedef struct gs_verb {
    const char *name, *usage;
    const char *options; /* the names of its options, separated by spaces */
    gs_word_count words; /* after the verb */
    gs_command_function *run;
} gs_verb;

typedef struct gs_command {
    const char *name, *summary;
    const char *no_shard; /* why it cannot be played in shards, or NULL */
    const char *usage;    /* the text after the name */
    const char *help;     /* what stands before --help, where that is not the name */
    const char *details;  /* a paragraph or an example for the help */
    const gs_option *options;
    size_t option_count;
    size_t options_size;  /* of the struct that the options fill */
    const void *defaults; /* such a struct; NULL: all zero */
    gs_word_count words;
    bool takes_program; /* the first word ends the options: the rest is the command line of a program */
    gs_command_function *run;
    const gs_verb *verbs; /* instead of `usage`, `words` and `run` */
    size_t verb_count;
} gs_command;

/* The options of a command: `table`, whose rows fill an `owner`. */
#define GS_OPTION_TABLE(owner, table) .options = table, .option_count = GS_COUNT(table), .options_size = sizeof(owner)

/* Parses the command line (argv[0] is the name of the command) and runs the command, or prints help or an error.
   Lists of words are freed when the command returns. Returns the exit code. */
int gs_command_run(const gs_command *command, int argc, char **argv);

void gs_print_help(const gs_command *command, FILE *file);
int gs_help_columns(FILE *file); /* the width of help: the terminal's, or 80 */

/* Parses a command line without running it. Prints an error; returns the exit code. */
int gs_command_parse(const gs_command *command, int argc, char **argv);

/* Prints "gridsmith NAME: MESSAGE" with a hint at --help; returns 2. */
int gs_usage(const gs_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes " (did you mean \"--json\"?)" to `words`, or nothing if no option is similar to a word without dashes. Returns
   `words`. */
const char *gs_suggest_option(const gs_command *command, const char *word, char *words, size_t size);

extern const gs_command gs_command_predict, gs_command_check, gs_command_occupancy, gs_command_gpus, gs_command_fuzz,
    gs_command_replay, gs_command_shrink, gs_command_fit, gs_command_record, gs_command_import, gs_command_probe,
    gs_command_bound, gs_command_reshape, gs_command_verify, gs_command_zoo, gs_command_serve, gs_command_run_program,
    gs_command_status, gs_command_top, gs_command_trace, gs_command_watch, gs_command_completion, gs_command_merge,
    gs_command_campaign, gs_command_plan, gs_command_adopt, gs_command_guard, gs_command_explain;

/* All of them (main.c). */
extern const gs_command *const gs_commands[];
extern const size_t gs_command_count;

/* ---- errors, and text for standard output ---- */

/* Prints one line (and on a terminal the place with a caret) and returns the exit code. */
int gs_report(const gs_error *error);
int gs_report_memory(void); /* the same for a failed allocation */

/* Fails because a file of `runs` runs does not have the one that is wanted. */
gs_code gs_fail_no_run(const char *path, size_t runs, int64_t wanted, gs_error *error);

/* Writes the rest of a text to its sink, at once, and frees it. Returns `code`, the result of making the text, or
   GS_E_MEMORY. A failed write shows in ferror(sink). */
gs_code gs_print_text(gs_text *text, gs_code code, gs_error *error);

/* Prints each line of a text to standard error, after "gridsmith COMMAND: ". */
void gs_print_lines(const char *command, const gs_text *lines);

/* Says on standard error which GPU a run is of, if its recording has several. */
void gs_say_device(const char *command, const gs_run *run);

/* Writes the HTML page of a campaign with its report, which is freed. */
gs_code gs_write_campaign_page(const char *path, const gs_campaign_page *page, gs_text *report, gs_error *error);

/* A step of a survey, for gs_survey_options and gs_pack_options; `user` is a gs_progress. */
void gs_show_step(void *user, const char *step, int64_t done, int64_t total);

/* ---- shards: commands that are a list of runs keep them in a file (shards.c) ---- */

/* --shard, --output and --resume, which fill a gs_shard_choice. */
#define GS_SHARD_OPTIONS(owner, field, keeps)                                                                          \
    GS_TEXT(owner, "shard", field.shard, "I/N",                                                                        \
            "only part I of N of the campaign, from 1; 'gridsmith merge' joins the parts"),                            \
        GS_OPTION_ROW(owner, "output", field.out, TEXT, const char *, "FILE|DIR",                                      \
                      keeps "; with --shard in a file in DIR", .letter = 'o', .old_name = "out"),                      \
        GS_FLAG(owner, "resume", field.resume, "continue the campaign in that file")

typedef struct gs_shard_choice {
    const char *shard, *out;
    bool resume;
} gs_shard_choice;

struct gs_shard;
struct gs_journal;
struct gs_campaign_about;

/* Checks the options, and reads the shard: 1 of 1 if none is given. Returns the exit code. */
int gs_check_shard(const gs_command *command, const gs_shard_choice *choice, struct gs_shard *shard);

/* Opens the file of a shard. `what` is the beginning of its name, `line` its first line. `path`, which may be NULL,
   gets the path. The caller closes it. */
struct gs_journal *gs_open_shard(const gs_shard_choice *choice, const struct gs_campaign_about *about, const char *what,
                                 const gs_text *line, gs_text *path, gs_error *error);

/* Prints how many runs were played, and how many existed already. */
void gs_say_shard(const gs_command *command, const struct gs_campaign_about *about, int64_t there);

/* Merges shards for a command, and prints their errors; returns the exit code. */
int gs_merge_paths(const gs_command *command, const char *const *paths, size_t count, const char *output);

/* ---- sources ---- */

struct gs_source;
/* Reads a CUDA source. The caller frees `*text`, even after an error, and the source. Reports errors and returns the
   exit code. */
int gs_read_source(const char *path, char **text, struct gs_source *source, gs_error *error);

/* ---- kernels as words: NAME=BLOCKSxTHREADS,... (kernel_words.c) ---- */

/* For the help of commands that take them. */
#define GS_KERNEL_WORDS_HELP                                                                                           \
    "KERNEL is NAME=BLOCKSxTHREADS and, where needed, registers=96 (or r96), shared=200KB (s200K),\n"                  \
    "local=1KB (l1K), cluster=2 (c2), priority=-1 (p-1), carveout=50 and stream=NAME, separated by commas.\n"

/* The number of the word that is a file; the number of words: none is; SIZE_MAX: several are. */
size_t gs_find_file_word(const gs_words *words);

/* A run of the kernels of the words, around those of `read` (may be NULL), which is word number `file`. The caller
   frees it. */
gs_run *gs_run_of_words(const gs_run *read, const gs_words *words, size_t file, gs_error *error);

/* ---- recorded programs (programs.c) ---- */

/* Whether a file is a recording of Gridsmith: its first bytes name the schema. Standard input is taken for one. */
bool gs_is_recording(const char *path);

/* Whether a file is a trace of PyTorch's profiler or a database of Nsight Systems. */
bool gs_is_trace(const char *path);

/* The program of a recording, or of a trace of another tool; run number `only`, from 1, 0: it must have one. Notes of
   an import are printed. The caller frees it. */
gs_run *gs_read_program(const char *path, int64_t only, gs_error *error);

/* Runs a program, records it into `recording` (NULL: a temporary file), and uses the recording. Returns the exit code
   of the program, or that of an error, which is reported. */
typedef gs_code gs_use_recording(const void *context, const char *path, gs_error *error);
int gs_with_program(const char *recording, const gs_words *words, gs_use_recording *use, const void *context);

/* ---- pictures ---- */

/* Predicts what is drawn: also why blocks wait, which is computed only for few launches; and the measurement. Fills the
   view and `*played`, which the caller clears after drawing. */
gs_run *gs_predict_to_draw(gs_view *view, const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                           gs_predict_options *request, gs_played *played, gs_error *error);

/* ---- GPUs ---- */

/* The GPU and the mechanisms of the command line. */
typedef struct gs_gpu_choice {
    const char *name, *like, *policy;
    int64_t sms;       /* 0: those of the GPU */
    gs_words settings; /* "mechanism=value" */
} gs_gpu_choice;

/* Opens the GPU of the command line, or else the GPU of `run` (may be NULL), which must be a built-in one: a file of
   runs does not open other files. The caller frees it. */
gs_gpu *gs_choose_gpu(const gs_gpu_choice *choice, const gs_run *run, gs_error *error);

/* Applies the policy and the settings of the command line to a GPU. */
gs_code gs_apply_choice(const gs_gpu_choice *choice, gs_gpu *gpu, gs_error *error);

/* The GPU for the runs of a file, in order: opened again only if a run names another one. */
typedef struct gs_gpu_of_runs {
    gs_gpu *gpu;
    char *name;
    gs_gpu *recorded_on; /* the GPU called `recorded_name`; NULL: that is `gpu`, or not known */
    char *recorded_name;
} gs_gpu_of_runs;

const gs_gpu *gs_gpu_for(gs_gpu_of_runs *kept, const gs_gpu_choice *choice, const gs_run *run, gs_error *error);

/* The GPU that a run with times was recorded on, as far as that is known; for other runs, and otherwise, the one that
   gs_gpu_for has just returned. */
const gs_gpu *gs_recorded_gpu_for(gs_gpu_of_runs *kept, const gs_run *run);
void gs_gpu_of_runs_clear(gs_gpu_of_runs *kept);

#endif
