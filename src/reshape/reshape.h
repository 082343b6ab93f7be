/*
 * reshape.h: CUDA source in, CUDA source out; and kernels on the CPU.
 *
 * Read from top to bottom:
 *
 *   sources    text as tokens with their places, and edits on it (tokens.c)
 *   host       kernels compiled by the system's C++ compiler and run on the CPU (host.c)
 */
#ifndef GS_RESHAPE_H
#define GS_RESHAPE_H

#include "device/device.h"

/* ---- sources ---- */

typedef enum gs_token_kind {
    GS_TOKEN_NAME, /* identifiers and keywords */
    GS_TOKEN_NUMBER,
    GS_TOKEN_STRING, /* with its prefix; raw strings too */
    GS_TOKEN_CHARACTER,
    GS_TOKEN_MARK /* punctuation: one character, but "::", "->" and "##" are whole, and digraphs are what they mean */
} gs_token_kind;

/* What a `{` opens, as far as the tokens before it tell. */
typedef enum gs_scope {
    GS_SCOPE_NONE,      /* not a `{` */
    GS_SCOPE_NAMESPACE, /* namespace, extern "C" */
    GS_SCOPE_CLASS,     /* class, struct, union, enum */
    GS_SCOPE_CODE       /* bodies, blocks, initializers */
} gs_scope;

enum { GS_NO_TOKEN = UINT32_MAX };

typedef struct gs_token {
    uint32_t at, length;
    uint32_t match;     /* the other bracket, or GS_NO_TOKEN */
    uint32_t within;    /* the `{` around it, or GS_NO_TOKEN */
    uint32_t directive; /* the `#` that begins the directive it is in, or GS_NO_TOKEN */
    uint8_t kind;       /* gs_token_kind */
    uint8_t scope;      /* gs_scope */
    char mark;          /* the character, or for "::" 'S', "->" 'A', "##" 'P'; 0: not a mark */
} gs_token;

typedef struct gs_source {
    const char *name; /* of the file, for errors; not owned */
    const char *text; /* not owned */
    size_t size;
    struct {
        gs_token *data;
        size_t count, room;
    } tokens;
} gs_source;

/* Splits `text` into tokens. Fails where a comment, string or bracket does not end or a bracket has no fellow. Keeps
   `name` and `text`. */
gs_code gs_source_read(gs_source *source, const char *name, const char *text, size_t size, gs_error *error);
void gs_source_free(gs_source *source);

bool gs_token_is(const gs_source *source, size_t token, const char *word);
/* An error about a token: file, line, column, a caret and the reason. */
gs_code gs_source_fail(const gs_source *source, size_t token, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Changes to a source: `removed` bytes at `at` give way to a text. Edits may come in any order; those at one place
   apply in the order in which they came. */
typedef struct gs_edits {
    struct gs_edit {
        size_t at, removed;
        size_t first, count; /* in `text` */
    } * data;
    size_t count, room;
    gs_text text;
    bool failed;
} gs_edits;

void gs_edits_add(gs_edits *edits, size_t at, size_t removed, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Appends the edited text. False: out of memory. */
bool gs_edits_apply(gs_edits *edits, const gs_source *source, gs_text *into);
void gs_edits_free(gs_edits *edits);

/* ---- host: kernels on the CPU ---- */

/* A folder where kernels are compiled; it goes with gs_host_close, and so do its programs. */
typedef struct gs_host gs_host;
typedef struct gs_program gs_program;

typedef struct gs_build {
    const char *name, *text; /* the .cu: what errors call it, and its bytes */
    size_t size;
    const char *const *kernels; /* names, with template arguments where they have some: "reduce<256>" */
    size_t kernel_count;
    const char *const *options; /* more for the compiler: "-DTILE=16" */
    size_t option_count;
    bool address_sanitizer; /* out-of-bounds accesses of kernels are found */
} gs_build;

/* Makes the folder and starts compiling what all programs share. $CXX, or c++, is the compiler. */
gs_host *gs_host_open(gs_error *error);
void gs_host_close(gs_host *host);

/* Starts compiling; mistakes show when it is run. Programs started one after the other compile side by side. */
gs_program *gs_host_compile(gs_host *host, const gs_build *build, gs_error *error);
/* Waits for the compiler. GS_E_KERNEL: it found a mistake. */
gs_code gs_program_wait(gs_program *program, gs_error *error);
/* Runs the calls in a process of their own, in order, and brings the buffers and times back. GS_E_KERNEL: a kernel
   failed (threads that diverged, a signal, an address out of bounds); GS_E_USAGE: the arguments do not fit. */
gs_code gs_program_run(gs_program *program, gs_work *work, gs_error *error);

/* The C++ that the compiler sees: shared memory and the table of kernels are made; all else is left to
   gridsmith_cuda.h. */
gs_code gs_host_translate(const gs_build *build, gs_text *into, gs_error *error);

#endif
