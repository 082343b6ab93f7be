/*
 * ptx_input.h: the sources of PTX: files that contain it, and CUDA sources through a compiler; and the names of kernels
 * for people.
 *
 *   texts       the PTX modules of a file, and which of them suits a GPU (ptx_texts.c)
 *   containers  PTX files, fatbins, ELF files and static libraries (ptx_container.c, ptx_fatbin.c)
 *   sources     CUDA C++ to PTX, by nvcc, NVRTC or clang (ptx_source.c, ptx_compilers.c, ptx_command.c)
 *   entries     the kernels of a PTX text, and which of them a name means (ptx_entries.c)
 */
#ifndef GS_PTX_INPUT_H
#define GS_PTX_INPUT_H

#include "base/base.h"

/* ---- texts: the PTX modules of a file ---- */

/* One PTX module, as text. */
typedef struct gs_ptx_text {
    char *text; /* ends in a NUL that `size` does not count */
    size_t size;
    char target[16];     /* "sm_90a" */
    int architecture;    /* 90 */
    size_t offset;       /* offset of its text, or its compressed text, in the file */
    size_t group;        /* the texts of one group are the same module, for several architectures */
    char *name;          /* the name that the fatbin gives it, else the member of the static library; or NULL */
    char *options;       /* for ptxas, as the fatbin has them; or NULL */
    bool is_relocatable; /* compiled with -rdc=true: it may need other modules, and is not a complete program */
} gs_ptx_text;

/* All of a file, in the order of the file. */
typedef struct gs_ptx_texts {
    gs_ptx_text *data;
    size_t count, capacity;
    size_t groups;
    size_t machine_codes; /* images that have machine code and no PTX, such as cubins */
    size_t bytes;         /* of all texts */
} gs_ptx_texts;

/* The most bytes of a file, of one text, and of all texts of a file. */
#define GS_PTX_FILE_MOST  ((size_t)2 << 30)
#define GS_PTX_TEXT_MOST  ((size_t)64 << 20)
#define GS_PTX_TEXTS_MOST ((size_t)512 << 20)

/* Finds the PTX of a file; `name` is its name in errors. GS_E_FORMAT: no PTX, or the file is damaged. The caller frees
   the texts if the code is GS_OK. */
gs_code gs_ptx_find(const char *name, const char *bytes, size_t size, gs_ptx_texts *texts, gs_error *error);
/* The same for a file that is read; "-" is standard input. */
gs_code gs_ptx_find_in_file(const char *path, gs_ptx_texts *texts, gs_error *error);
void gs_ptx_texts_free(gs_ptx_texts *texts);

/* The cubins of such a file, in its order: calls `take` for each. GS_E_FORMAT: none, or the file is damaged. */
typedef gs_code gs_ptx_take_cubin(void *context, const char *bytes, size_t size, gs_error *error);
gs_code gs_ptx_cubins_of_file(const char *path, gs_ptx_take_cubin *take, void *context, gs_error *error);

/* In place of a compute capability: the CPU runs PTX of every target. */
enum { GS_PTX_EVERY = INT32_MAX };

/* The text of a group for GPUs with this compute capability (90: 9.0): the one with the highest target that runs there,
   on the CPU preferably one for many GPUs (sm_90) over one for a single GPU (sm_90a). NULL: all targets are above
   it. */
const gs_ptx_text *gs_ptx_texts_best(const gs_ptx_texts *texts, size_t group, int capability);
/* Whether PTX for a target, such as "sm_80", "sm_90a" or "sm_120f", can be compiled for a compute capability. */
bool gs_ptx_target_suits(const char *target, int capability);

/* ---- sources: CUDA C++ to PTX ---- */

typedef struct gs_ptx_source_request {
    const char *file; /* its name in errors; included files are searched in its folder */
    const char *text;
    size_t size;
    const char *const *kernels; /* names, with their template arguments: "reduce<256>"; instances of these are made */
    size_t kernel_count;
    const char *const *options; /* for the compiler, as users write them: "-I", "include", "-DN=4", "-std=c++20" */
    size_t option_count;
    int architecture; /* 90: compute capability 9.0 */
    const char
        *compiler;   /* "nvcc", "nvrtc" or "clang"; NULL: $GRIDSMITH_COMPILER, or else the first that can compile it */
    int seconds;     /* time limit of nvcc and clang; 0: 300 */
    bool is_watched; /* the caller watches this process group: compilers stay in it */
} gs_ptx_source_request;

typedef struct gs_ptx_compiled {
    char *text; /* PTX */
    size_t size;
    char **symbols; /* of each kernel of the request: its name in the PTX */
    size_t count;
    const char *compiler; /* the compiler that was used */
    int architecture;     /* of the PTX: with clang it may be lower than requested */
} gs_ptx_compiled;

/* Compiles. GS_E_KERNEL: the source has an error, or lacks a kernel; the place and message are those of the compiler.
   GS_E_UNSUPPORTED: no compiler was found. GS_E_USAGE: unknown compiler. The caller frees the result if the code is
   GS_OK. */
gs_code gs_ptx_from_source(const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error);
void gs_ptx_compiled_free(gs_ptx_compiled *compiled);

/* Whether bytes can only be a source: they are neither PTX nor a file that contains PTX. */
bool gs_ptx_is_source(const char *bytes, size_t size);

/* The path of the clang that compiles sources. False: not found. */
bool gs_ptx_clang(char *path, size_t size);
/* Writes the headers that clang gets in place of CUDA's into a folder. */
gs_code gs_ptx_clang_headers(const char *folder, gs_error *error);

/* The symbols of the kernels of a PTX text. */
typedef struct gs_ptx_entries {
    char **data;
    size_t count, capacity;
} gs_ptx_entries;

bool gs_ptx_entries_list(const char *text, gs_ptx_entries *entries); /* false: out of memory */
/* The number of the kernel `name`, which is a symbol, or a name as people write it. -1: none; -2: several. */
int gs_ptx_entries_find(const gs_ptx_entries *entries, const char *name);
void gs_ptx_entries_free(gs_ptx_entries *entries);

/* ---- inside: for the files that read containers ---- */

/* The state shared by the files that read a container. */
typedef struct gs_ptx_search {
    const char *name;  /* of the file, for errors */
    const char *bytes; /* the whole file */
    size_t size;
    const char *member; /* of the static library, or NULL */
    bool is_relocatable;
    gs_ptx_texts *texts;
    gs_ptx_take_cubin *take; /* for cubins; then PTX is left out. NULL: the other way round */
    void *context;
    gs_error *error;
} gs_ptx_search;

/* A part of the file. */
typedef struct gs_ptx_span {
    size_t at, size;
} gs_ptx_span;

/* An error about the file of a search. Returns GS_E_FORMAT. */
gs_code gs_ptx_search_fail(const gs_ptx_search *search, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a text begins like PTX: blanks, comments, then ".version". */
bool gs_ptx_looks_like(const char *text, size_t size);
/* Appends a text, and takes ownership of it, even after an error. Reads its target. */
gs_code gs_ptx_texts_add(const gs_ptx_search *search, const gs_ptx_text *text);

/* Counts a cubin, and takes it if the search is for cubins. */
gs_code gs_ptx_cubin(const gs_ptx_search *search, const char *bytes, size_t size);

/* Fatbins, one after the other, with or without zeros between them. */
gs_code gs_ptx_fatbins(const gs_ptx_search *search, gs_ptx_span span);

#endif
