/*
 * base.h: what every other wing builds on: errors, growable arrays, text, edits, input files, JSON, output files,
 * progress, digests, names of C++ functions, temporary folders, processes, threads, random numbers.
 *
 * Naming: gs_fail_ makes errors, gs_text_ builds text, gs_input_ reads bytes, gs_json_ reads JSON, gs_write_ writes
 * it, gs_output_ writes files, gs_names_ maps names to numbers.
 */
#ifndef GS_BASE_H
#define GS_BASE_H

#include <gridsmith/gridsmith.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

#define GS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- errors: filled in once, where they are detected ---- */

/* Sets code and message, no place. Returns `code`, so that a caller can `return gs_fail(...)`. */
gs_code gs_fail(gs_error *error, gs_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
gs_code gs_fail_list(gs_error *error, gs_code code, const char *format, va_list arguments);

gs_code gs_fail_memory(gs_error *error);

/* Names the file of an error that has no place. Returns its code. */
gs_code gs_error_name_file(gs_error *error, const char *file);

/* Fills in the line, the column and an excerpt with a caret for the byte `offset` of `text`. The first byte of `text`
   stands at `line` and `column` of its file. */
void gs_error_place(gs_error *error, const char *text, size_t size, size_t offset, long line, long column);

/* The message of errno: "cannot WHAT FILE: reason". */
gs_code gs_fail_system(gs_error *error, const char *what, const char *file);
/* The same for reading. A path that does not exist, or is a folder, is a mistake of the user: GS_E_USAGE. */
gs_code gs_fail_read(gs_error *error, const char *name);

/* ---- growable arrays: `data`, `count` and `capacity` of a struct, grown in place ---- */

/* Reserves capacity for `more` further elements of `size` bytes; doubles, so that appending is cheap. False: out of
 * memory. */
bool gs_array_reserve(void **data, size_t count, size_t *capacity, size_t more, size_t size);

#define GS_RESERVE(array, more)                                                                                        \
    gs_array_reserve((void **)&(array)->data, (array)->count, &(array)->capacity, (more), sizeof *(array)->data)

/* Appends a value, which must not depend on the array's count. False: out of memory. */
#define GS_PUSH(array, ...) (GS_RESERVE(array, 1) && ((array)->data[(array)->count++] = (__VA_ARGS__), true))

/* ---- text that grows; a failed allocation or write is remembered in `failed` ---- */

typedef struct gs_text {
    char *data; /* always ends in a NUL once something was added */
    size_t count, capacity;
    FILE *sink;  /* where long text goes as it grows; NULL: it stays in memory */
    int columns; /* lines are folded to this number of columns on their way to the sink; 0: they are not folded */
    bool (*write_folded)(const struct gs_text *text); /* with columns; fold.c sets both */
    bool failed;
} gs_text;

void gs_text_add(gs_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gs_text_put(gs_text *text, const char *bytes, size_t count);
void gs_text_put_int(gs_text *text, int64_t value);
void gs_text_put_grouped(gs_text *text, int64_t value);   /* for people: 204,800 */
void gs_text_put_json(gs_text *text, const char *string); /* quoted and escaped */
void gs_text_put_xml(gs_text *text, const char *string);  /* with &, <, > and quotes escaped */

/* Replaces control characters and invalid UTF-8, which could harm a terminal, by question marks. */
void gs_make_printable(char *string);

/* Whether the text is free of control characters and invalid UTF-8. */
bool gs_is_printable(const char *string);

/* A list of numbers for people, with regular sequences shortened: "0-8, 12", "0, 2, .. 80", "5 x3". After `parts` parts
   it only says how many numbers are left. */
void gs_text_put_numbers(gs_text *text, const int32_t *numbers, size_t count, int parts);

/* The same for the beginning of a list, given as runs of equal numbers. `total` is the length of the whole list. */
typedef struct gs_number_run {
    int32_t number;
    int64_t count;
} gs_number_run;

void gs_text_put_runs(gs_text *text, const gs_number_run *runs, size_t count, int64_t total, int parts);

/* The style of the text that follows, if the sink is a terminal with colors. Pipes and files get no colors. NO_COLOR
   turns colors off. */
typedef enum gs_style { GS_STYLE_PLAIN, GS_STYLE_HEADING, GS_STYLE_GOOD, GS_STYLE_BAD, GS_STYLE_NOTE } gs_style;
void gs_text_style(gs_text *text, gs_style style);
const char *gs_style_code(FILE *stream, gs_style style); /* for fprintf; empty without colors */

/* ---- lines that fit a terminal (fold.c) ---- */

/* The columns of a terminal, or $COLUMNS; 0: the stream is a pipe or a file, whose lines may have any length. */
int gs_columns(FILE *stream);
/* A text for people, whose lines are folded where its sink is a terminal. A JSON writer ends that. */
gs_text gs_text_for_people(FILE *sink);
gs_text gs_text_folded(FILE *sink, int columns); /* the same for this many columns */
/* Appends lines, folded. */
void gs_text_fold(gs_text *text, const char *lines, size_t count, int columns);
/* The same for one line without its newline. What does not fit on it is indented by `indent`; negative: as its last
 * column.
 */
void gs_text_fold_line(gs_text *text, const char *line, size_t count, int columns, int indent);

void gs_text_flush(gs_text *text); /* writes the text to the sink and empties it */
void gs_text_clear(gs_text *text); /* empties it, keeps the memory */
void gs_text_free(gs_text *text);

/* ---- suggestions for misspelled names ---- */

typedef struct gs_similar {
    const char *word; /* the misspelled name; the caller sets it, and the rest to zero */
    const char *name; /* the most similar name, or NULL */
    size_t distance;
    char words[100];
} gs_similar;

void gs_similar_try(gs_similar *similar, const char *name);
/* " (did you mean "NAME"?)", or nothing. */
const char *gs_similar_words(gs_similar *similar);
size_t gs_word_distance(const char *a, const char *b);

/* ---- sizes ---- */

/* Bytes, as in 4096, 200K, 200KB, 200KiB (all three of 1,024 bytes), 16M, 2G or 1T. False: not a size, or too large. */
bool gs_parse_bytes(const char *text, int64_t *bytes);

/* ---- edits: changes to a text; `removed` bytes at `at` are replaced by other text ---- */

/* Edits may be added in any order; those at one place apply in the order in which they were added. */
typedef struct gs_edits {
    struct gs_edit {
        size_t at, removed;
        size_t first, count; /* in `text` */
    } * data;
    size_t count, capacity;
    gs_text text;
    bool failed;
} gs_edits;

void gs_edits_add(gs_edits *edits, size_t at, size_t removed, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void gs_edits_put(gs_edits *edits, size_t at, size_t removed, const char *bytes, size_t count);
/* Appends the bytes from `from` to `to` of the text, edited; all edits must lie there. False: out of memory. */
bool gs_edits_apply(gs_edits *edits, const char *text, size_t from, size_t to, gs_text *into);
void gs_edits_free(gs_edits *edits);

/* ---- names: a hash from strings to numbers ---- */

typedef struct gs_names {
    struct gs_name {
        const char *name; /* not owned */
        size_t number;
    } * slots;
    size_t count, capacity;
} gs_names;

/* Looks `name` up; adds it with `number` if it is new. Returns the number it has, or SIZE_MAX: out of memory. */
size_t gs_names_add(gs_names *names, const char *name, size_t number);
/* The number of `name`, or SIZE_MAX. */
size_t gs_names_find(const gs_names *names, const char *name);
/* Makes `to` equal to `from`; the names stay where they are. False: out of memory. */
bool gs_names_copy(gs_names *to, const gs_names *from);
void gs_names_free(gs_names *names);

/* ---- strings: each kept once, at an address that does not change ---- */

typedef struct gs_strings {
    struct gs_string {
        char *bytes;
        uint32_t length, hash;
    } * slots;
    size_t count, capacity;
    struct gs_strings_chunk *chunks;
    char *next; /* free bytes of the first chunk */
    size_t left;
} gs_strings;

/* The address of these bytes, with a NUL after them; multiples of 8. Equal strings have the same address. NULL: out of
   memory. The bytes must not be changed. */
char *gs_strings_add(gs_strings *strings, const void *bytes, size_t length);
/* A copy of bytes that are known to be new; gs_strings_add will not find it. */
char *gs_strings_keep(gs_strings *strings, const void *bytes, size_t length);
void gs_strings_free(gs_strings *strings);

/* ---- input: bytes of a plain or gzip file, "-" for standard input, or memory ---- */

typedef struct gs_input gs_input;

gs_input *gs_input_open(const char *path, gs_error *error);
const char *gs_input_name(const char *path);                                                   /* its name in errors */
gs_input *gs_input_memory(const char *name, const char *bytes, size_t count, gs_error *error); /* keeps `bytes` */
/* Bytes of an input, as an input of their own with the name and the place of the next byte of `input`. */
gs_input *gs_input_part(const gs_input *input, const char *bytes, size_t count, gs_error *error);
void gs_input_close(gs_input *input);
/* The rest of the line, which is not consumed: its length, without the newline. SIZE_MAX: the file has ended, or the
   line is longer than 60,000 bytes, or cannot be read; then read it by other means. */
size_t gs_input_line(gs_input *input, const char **line, bool *is_last); /* is_last: no newline follows */
/* Consumes `count` bytes of that line, or its newline too. */
void gs_input_take(gs_input *input, size_t count);
long gs_input_line_number(const gs_input *input);
/* The bytes that are available, at least one unless the file has ended. gs_input_take consumes them. */
gs_code gs_input_more(gs_input *input, const char **bytes, size_t *count, gs_error *error);
/* GS_E_FORMAT if more than 16 MiB were read, from less than a hundredth of that in compressed bytes: a small file must
   not fill the memory. */
gs_code gs_input_check_expansion(const gs_input *input, gs_error *error);
/* An error at the next byte. */
gs_code gs_input_fail(const gs_input *input, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* All bytes of a file that has at most `most`, followed by a NUL; of a gzip file, what it was made of, unless that is
   as much longer as gs_input_check_expansion says. The caller frees `*bytes`. */
gs_code gs_input_all(const char *path, size_t most, char **bytes, size_t *count, gs_error *error);
/* Appends what a gzip file in memory was made of, if that has at most `most` bytes. */
gs_code gs_gunzip(const void *bytes, size_t count, size_t most, gs_text *text, gs_error *error);

/* ---- files that are compiled in (embed in CMakeLists.txt) ---- */

typedef struct gs_embedded_file {
    const char *name; /* of JSON files without their ending */
    const char *bytes;
    size_t count; /* a NUL follows them */
} gs_embedded_file;

typedef struct gs_embedded_files {
    const gs_embedded_file *data;
    size_t count;
} gs_embedded_files;

const gs_embedded_file *gs_embedded_find(const gs_embedded_files *files, const char *name); /* or NULL */

/* ---- JSON in: the values of a file one after the other, each with its text, so that errors can name the place ---- */

typedef struct gs_json {
    json_t *root; /* NULL: the file has ended */
    char *text;   /* the value as it stands in the file */
    size_t size;
    long line, column; /* of its first byte */
    char *file;        /* name, for errors */
} gs_json;

/* Reads the next value. At the end of the file root is NULL and the code GS_OK. Anything read is freed with
   gs_json_free. Values nested deeper than GS_JSON_DEPTH are refused. */
gs_code gs_json_next(gs_input *input, gs_json *json, gs_error *error);
/* Refuses a file in which more follows. */
gs_code gs_json_end(gs_input *input, gs_error *error);
void gs_json_free(gs_json *json);

enum { GS_JSON_DEPTH = 16 };

/* One step of the path from the root of a document to a value. Steps live on the stack and point to the one above, so a
   path costs nothing until an error needs it. */
typedef struct gs_step {
    const struct gs_step *up; /* NULL: this is the root */
    const char *key;          /* the key in an object, or NULL: */
    size_t index;             /* the index in an array */
    json_t *value;
} gs_step;

gs_step gs_step_root(const gs_json *json);
gs_step gs_step_key(const gs_step *up, const char *key);
gs_step gs_step_index(const gs_step *up, size_t index);

/* An error about the value at `at` (at its key, where `at_key`), with file, line, column and an excerpt. */
gs_code gs_json_fail(const gs_json *json, const gs_step *at, bool at_key, gs_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* One key of an object: where it goes in a struct, and what it may be. */
typedef enum gs_field_type {
    GS_FIELD_INT32,
    GS_FIELD_INT64,
    GS_FIELD_NAME,     /* char *, strdup'ed, not empty */
    GS_FIELD_DURATION, /* a number of microseconds, int or real, into int64_t nanoseconds */
    GS_FIELD_THREE,    /* a list of three whole numbers, into int32_t[3] */
    GS_FIELD_BOOL,     /* int32_t */
    GS_FIELD_OTHER     /* allowed, but read by other code */
} gs_field_type;

typedef struct gs_field {
    const char *key;
    gs_field_type type;
    bool required;
    size_t offset;
    int64_t least, most;
} gs_field;

/* Reads an object by a table of fields. Unknown keys, missing keys, wrong types and values out of range are errors.
   Members of `*into` whose keys are absent are left unchanged. */
gs_code gs_json_object(const gs_json *json, const gs_step *at, const gs_field *fields, size_t count, void *into,
                       gs_error *error);

/* A whole number within limits. */
gs_code gs_json_int(const gs_json *json, const gs_step *at, int64_t least, int64_t most, int64_t *value,
                    gs_error *error);

/* Checks that `at` is an object with `schema` equal to `wanted`. */
gs_code gs_json_schema(const gs_json *json, const gs_step *at, const char *wanted, gs_error *error);

/* ---- JSON out: documents written value by value; the writer puts commas, quotes and brackets ---- */

typedef struct gs_writer {
    gs_text *text;
    bool has_sibling; /* a value stands before the next one, in the same array or object */
    int depth;
    char closers[GS_JSON_DEPTH]; /* the brackets that end what is open */
} gs_writer;

/* Writes into `text`, which the caller frees. Mistakes and a lack of memory show in its `failed`. Documents are as deep
   as gs_json_next reads them. */
gs_writer gs_writer_to(gs_text *text);

/* Begins a document, an object with its schema; and ends it, with a newline. gs_write_finish ends all open objects and
   arrays, so it also ends a line that gs_write_object began. Then another document or line may follow. */
void gs_write_document(gs_writer *writer, const char *schema);
void gs_write_finish(gs_writer *writer);

/* Objects and arrays, which gs_write_end ends. `key` is NULL within arrays, here and below. */
void gs_write_object(gs_writer *writer, const char *key);
void gs_write_array(gs_writer *writer, const char *key);
void gs_write_end(gs_writer *writer);

void gs_write_int(gs_writer *writer, const char *key, int64_t value);
void gs_write_uint(gs_writer *writer, const char *key, uint64_t value);
void gs_write_real(gs_writer *writer, const char *key, double value, int decimals); /* not finite: null */
void gs_write_us(gs_writer *writer, const char *key,
                 int64_t nanoseconds); /* microseconds, as many decimals as needed */
void gs_write_string(gs_writer *writer, const char *key, const char *value); /* NULL: null; invalid UTF-8 is replaced */
void gs_write_optional(gs_writer *writer, const char *key, const char *value); /* a string, or nothing for NULL */
void gs_write_bool(gs_writer *writer, const char *key, bool value);
void gs_write_null(gs_writer *writer, const char *key);
void gs_write_raw(gs_writer *writer, const char *key, const char *json); /* a value that is JSON already */

/* Numbers, flags and names of a struct, by the table that reads them. What is not required is left out if it is 0 or
   NULL, and so is GS_FIELD_OTHER. */
void gs_write_fields(gs_writer *writer, const gs_field *fields, size_t count, const void *from);

/* ---- output: standard output, or a file that appears only when it is complete ---- */

typedef struct gs_output {
    FILE *file;
    FILE *target;           /* gets all of `file` when it is complete; NULL: `file` is what is written */
    char *path, *temporary; /* NULL for standard output */
    bool is_compressed;     /* `target` gets it compressed */
} gs_output;

/* Whether two paths name the same file, which need not exist. */
bool gs_is_same_path(const char *one, const char *other);

/* Whether all that was written to a file has arrived there; if not, errno says why. */
bool gs_flush(FILE *file);
/* NULL: standard output. A file whose name ends in .gz is compressed. */
gs_code gs_output_open(gs_output *output, const char *path, gs_error *error);
/* The same for a document that is useless in part: standard output, too, gets all of it or nothing. */
gs_code gs_output_open_whole(gs_output *output, const char *path, gs_error *error);
gs_code gs_output_keep(gs_output *output, gs_error *error); /* flush, rename, close */
void gs_output_drop(gs_output *output);                     /* close, remove what was written */
/* Keeps it if `code`, the result of writing it, is GS_OK; drops it otherwise. */
gs_code gs_output_end(gs_output *output, gs_code code, gs_error *error);

/* Whether the file can be written, as far as is known without writing it: pipes and devices are left alone. */
gs_code gs_output_check(const char *path, gs_error *error);

/* Writes a whole text. NULL: to standard output. */
gs_code gs_output_text(const char *path, const gs_text *text, gs_error *error);
/* The same for people: lines are folded where the output is a terminal. */
gs_code gs_output_for_people(const char *path, const gs_text *text, gs_error *error);

/* Writes a gzip file that appears only when it is complete. The same bytes give the same file. */
gs_code gs_output_gzip(const char *path, const char *bytes, size_t count, gs_error *error);

/* Closes a descriptor, unless it is negative, and sets it to -1. */
void gs_close_fd(int *fd);

/* Makes a folder and those above it, accessible to this user only. `path` is changed meanwhile and restored. */
gs_code gs_make_folders(char *path, gs_error *error);

/* Whether only root and this user can change the file or folder: GS_E_USAGE says who else could, and where. It need not
   be there yet. See trust.c. */
gs_code gs_check_trusted_path(const char *path, gs_error *error);

/* ---- progress on standard error, where that is a terminal, and when a signal ends the program ---- */

typedef struct gs_progress {
    const char *what;
    int64_t started_ns, shown_ns;
    bool shown, on;
} gs_progress;

void gs_progress_start(gs_progress *progress, const char *what);
void gs_progress_show(gs_progress *progress, int64_t done, int64_t total);
double gs_progress_seconds(const gs_progress *progress); /* since its start */
/* Shows "WHAT: " and a message of the caller's. NULL: shows nothing. */
void gs_progress_say(gs_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gs_progress_end(gs_progress *progress);

int64_t gs_now_ns(void);
/* CPU time of the calling thread. */
int64_t gs_thread_ns(void);

/* ---- digests: SHA-256, for file names and to detect damaged files ---- */

typedef struct gs_digest {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} gs_digest;

void gs_digest_begin(gs_digest *hash);
void gs_digest_add(gs_digest *hash, const void *bytes, size_t count);
/* Adds a string and its length, so that "ab", "c" differs from "a", "bc". */
void gs_digest_add_text(gs_digest *hash, const char *text);
void gs_digest_end(gs_digest *hash, unsigned char digest[32]);
void gs_digest_hex(const unsigned char digest[32], char text[65]);

/* ---- names of C++ functions (demangle.c) ---- */

enum {
    GS_NAME_ALONE = 1, /* without parameters: reduce<256> */
    GS_NAME_RETURN = 2 /* with the return type, where the symbol has it: void reduce<256>(float*, int) */
};

/* The name of a C++ symbol for people: "reduce<256>(float*, int)" for "_Z6reduceILi256EEvPfi". A symbol that is not
   understood is returned as it is. The caller frees the name; NULL: out of memory. */
char *gs_demangle(const char *symbol, unsigned flags);

/* The identifiers of a C++ symbol one after the other, up to its template arguments or parameters: "at", "native" and
   "add" of _ZN2at6native3addIfEEvPT_. Anonymous namespaces are passed over. Begin with {.text = SYMBOL}. */
typedef struct gs_symbol {
    const char *text;
    const char *name; /* an identifier of `length` letters, in `text` */
    size_t length;
    bool is_nested;
    const char *at; /* what follows; NULL at the beginning */
} gs_symbol;

bool gs_symbol_next(gs_symbol *symbol); /* false: there are no more */

/* Short names of kernels, all different: "reduce<256>" and "reduce<512>" (short_names.c). Add all names, which must
   stay where they are; then make the short ones, once. A name that was not added is its own short name. */
enum { GS_SHORT_NAME = 60 }; /* letters at most */

typedef struct gs_short_names {
    struct gs_short_name *data;
    size_t count, capacity;
    gs_names by_name;
    gs_strings texts;
} gs_short_names;

gs_code gs_short_names_add(gs_short_names *names, const char *name, gs_error *error);
gs_code gs_short_names_make(gs_short_names *names, gs_error *error);
const char *gs_short_name(const gs_short_names *names, const char *name);
const char *gs_long_name(const gs_short_names *names, const char *brief); /* the other way round; slow */
void gs_short_names_clear(gs_short_names *names);

/* ---- folders for temporary files (folder.c) ---- */

/* A new folder for temporary files, or NULL. The caller frees its path, after gs_folder_remove of this path. A signal
   that ends the program removes it, too. */
char *gs_folder_make(gs_error *error);
/* The same with a path that begins with WHERE/NAME-, and without signals. NULL: where temporary files go, TMPDIR or
   /tmp. */
char *gs_folder_make_in(const char *where, const char *name, gs_error *error);
/* Removes it with all that is in it. */
void gs_folder_remove(const char *folder);
gs_code gs_folder_write(const char *folder, const char *name, const char *bytes, size_t count, gs_error *error);
/* The path of a file in the folder, or NULL: the folder is NULL, or out of memory. The caller frees it. */
char *gs_folder_read(const char *folder, const char *name, size_t most);

/* ---- processes (process.c) ---- */

enum { GS_PROCESS_FDS = 4, GS_PROCESS_FIRST_FD = 3 };

/* A program, and what is different from this process for it. What is NULL, 0 or false stays as it is here; but no
   signals are blocked, and of the descriptors it gets only the three streams and `fds`. */
typedef struct gs_process_options {
    const char *const *words;           /* ending in NULL; the first is looked for in PATH */
    const char *program;                /* the file, instead of the first word */
    const char *folder;                 /* where it starts */
    const char *const *changes;         /* of the environment, ending in NULL: "NAME=value", or "NAME" to remove it */
    const char *input, *output;         /* files: standard input, and what it prints */
    const char *errors;                 /* file: what it prints on standard error; NULL: the same as `output` */
    int input_fd, output_fd, errors_fd; /* descriptors instead of the files */
    int fds[GS_PROCESS_FDS], fd_count;  /* become 3, 4, ... in the program */
    bool has_own_group;                 /* so that it can be killed together with its own children */
    bool has_own_session;               /* Ctrl-C does not reach it */
    int end_signal;                     /* it gets this signal when the thread that started it ends */
} gs_process_options;

/* Starts the program. GS_E_USAGE: it is not in PATH. */
gs_code gs_process_start(const gs_process_options *options, pid_t *process, gs_error *error);
/* The same, for callers with messages of their own. Returns an error number, or 0. */
int gs_process_try(const gs_process_options *options, pid_t *process);

/* The file of this program, for children that run it: $GRIDSMITH_PROGRAM, or the running one. */
const char *gs_program_own(void);
/* The file of a program, as a shell would find it: by its path, or in the folders of PATH. */
bool gs_program_find(const char *name, char *path, size_t size);

/* Waits for the end of a child. Returns its status as waitpid does; -1: there is no such child. */
int gs_process_wait(pid_t process);
/* The same until `deadline_ns` of gs_now_ns. False: it has not ended. */
bool gs_process_wait_until(pid_t process, int64_t deadline_ns, int *status);
/* Kills a child, with its group if it has its own, and waits for its end. */
int gs_process_kill(pid_t process, bool with_group);
/* Of a status: the exit code as a shell has it, 128 plus the signal if one ended the process. */
int gs_process_exit_code(int status);
/* Says how a process ended: "it was ended by signal 9 (Killed)". */
void gs_process_say_end(int status, char *text, size_t size);

/* The cores that this process may use: a container or `taskset` may leave it few of the machine's. */
int64_t gs_process_cores(void);

/* The calling thread is one of `threads` that compute. It gives way to what wakes up; where together they could fill
   all cores, it leaves the first one to others. It has half of the weight of others. */
void gs_thread_give_way(int64_t threads);

/* Whether there are enough cores for processes that poll instead of sleeping. Waking up takes about 0.1 ms, and
   sometimes several milliseconds on a shared machine. `others`: threads that need a core for themselves. */
bool gs_process_may_spin(int64_t others);

/* ---- programs of others, such as compilers, that run in a folder of their own for a limited time (tool.c) ---- */

typedef struct gs_tool {
    const char *const *words; /* ending in NULL; the first is looked for in PATH */
    const char *folder;       /* where its temporary files and its output, "log", go */
    int seconds;              /* time limit */
    bool stays_in_group;      /* it gets no process group of its own */
    int signal;               /* set by gs_tool_run: the signal that ended it, or 0 */
} gs_tool;

typedef enum gs_tool_end { GS_TOOL_DONE, GS_TOOL_FAILED, GS_TOOL_LATE, GS_TOOL_NOT_FOUND } gs_tool_end;

/* Runs the tool. After the time limit it is killed, with all that it started. */
gs_tool_end gs_tool_run(gs_tool *command);

/* ---- threads ---- */

/* Starts a thread that blocks all signals, so that other threads get them. `stack_bytes`: 0 for the usual size. */
bool gs_thread_start(pthread_t *thread, size_t stack_bytes, void *(*body)(void *), void *argument);
/* Waits until all have ended. False: some still run after this many seconds. These cannot be joined again. */
bool gs_threads_join(const pthread_t *threads, size_t count, int seconds);

/* ---- random numbers, each repeatable from a seed and an index ---- */

typedef struct gs_random {
    uint64_t state;
} gs_random;

gs_random gs_random_at(uint64_t seed, uint64_t index);
uint64_t gs_random_next(gs_random *random);
int64_t gs_random_from(gs_random *random, int64_t least, int64_t most); /* both included */
bool gs_random_chance(gs_random *random, int percent);

/* ---- arithmetic and hashes ---- */

static inline int64_t gs_divide_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

static inline int64_t gs_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t gs_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The same for unsigned times and sizes. */
static inline uint64_t gs_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t gs_max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The order of two numbers, for qsort: -1, 0 or 1. */
#define GS_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* Functions for qsort: the order of two elements by a member; by `next` where that is equal; with the greatest first.
 */
#define GS_ORDER(name, type, member) GS_ORDER_BODY(name, type, a->member, b->member, 0)
#define GS_ORDER_THEN(name, type, member, next)                                                                        \
    GS_ORDER_BODY(name, type, a->member, b->member, GS_COMPARE(a->next, b->next))
#define GS_ORDER_DOWN_THEN(name, type, member, next)                                                                   \
    GS_ORDER_BODY(name, type, b->member, a->member, GS_COMPARE(a->next, b->next))
#define GS_ORDER_BODY(name, type, left, right, otherwise)                                                              \
    static int name(const void *one, const void *other) {                                                              \
        const type *a = one, *b = other;                                                                               \
        int order = GS_COMPARE(left, right);                                                                           \
        return order ? order : otherwise;                                                                              \
    }

/* For qsort: an order of int64_t, or of uint64_t and size_t below 2^63. */
static inline int gs_compare_int64(const void *a, const void *b) {
    return GS_COMPARE(*(const int64_t *)a, *(const int64_t *)b);
}

/* A hash of bytes, for tables in memory and for keys: eight bytes at a time, each mixed in by a multiplication. To hash
   several pieces, pass the hash of the pieces before; the first call passes 0. */
static inline uint64_t gs_hash(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (hash ^= 0x9e3779b97f4a7c15u + count; count; at += 8) {
        uint64_t word = 0;
        size_t part = gs_min_u64(count, 8);
        memcpy(&word, at, part);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        count -= part;
    }
    return hash;
}

#endif
