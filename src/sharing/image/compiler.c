/*
 * compiler.c: the compiler process: one source in, one image out. See image.h.
 *
 * First it finds the dependencies of the source by reading it. Then it enters the sandbox, with exactly those files,
 * and compiles. Finally it checks whether the files are unchanged; if not, the image is valid for this client, but is
 * not kept.
 *
 * All output goes to the folder TMPDIR, which the daemon makes and removes. It is also the current folder, so relative
 * names refer to nothing else. The daemon watches time and memory, and kills all processes of the group.
 */
#define _GNU_SOURCE
#include "image_forms.h"
#include "include_search.h"
#include "sandbox.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct compiler {
    gs_compiler_shared *shared;
    const char *scratch;
    gs_image_source source;
    gs_product product; /* with rows: the source is its document, and on the CPU then its kernel */
    const char *name;   /* of the CUDA compiler, as in gs_ptx_source_request; NULL: the source is not CUDA */
    char clang[1000];   /* its program */
    gs_host *host;
    gs_dependencies dependencies;
    gs_readable readable;
};

/* ---- the source ---- */

/* A copy with a terminating NUL, which some readers need. */
static gs_code read_source(struct compiler *compiler, gs_error *error) {
    const gs_compiler_shared *shared = compiler->shared;
    char *copy = malloc(shared->bytes + 1);
    void *bytes = shared->bytes ? mmap(NULL, shared->bytes, PROT_READ, MAP_PRIVATE, GS_COMPILER_SOURCE, 0) : "";
    if (!copy || bytes == MAP_FAILED)
        return gs_fail_memory(error);
    memcpy(copy, bytes, shared->bytes);
    copy[shared->bytes] = '\0';
    if (shared->bytes)
        munmap(bytes, shared->bytes);
    return gs_image_unpack(copy, shared->bytes, shared->option_count, shared->kernel_count, &compiler->source, error);
}

static bool is_product(const struct compiler *compiler) {
    return compiler->product.rows > 0;
}

/* The document of a product, if the source is one. On the CPU its kernel takes the place of the document. */
static gs_code read_product(struct compiler *compiler, gs_error *error) {
    gs_image_source *source = &compiler->source;
    gs_text kernel = {0};
    if (!gs_product_is(source->text, source->size))
        return GS_OK;
    gs_code code = gs_product_read(source->name, source->text, source->size, &compiler->product, error);
    if (code == GS_OK && source->option_count)
        return gs_fail(error, GS_E_USAGE, "%s is a product: options apply only to CUDA sources", source->name);
    if (code == GS_OK && source->kernel_count > 1)
        return gs_fail(error, GS_E_KERNEL, "%s has one kernel, \"" GS_PRODUCT_KERNEL "\", and not %zu", source->name,
                       source->kernel_count);
    if (code == GS_OK && source->kernel_count && strcmp(source->kernels[0], GS_PRODUCT_KERNEL) != 0)
        return gs_fail(error, GS_E_KERNEL, "%s has one kernel, \"" GS_PRODUCT_KERNEL "\", not \"%.100s\"", source->name,
                       source->kernels[0]);
    if (code != GS_OK || compiler->shared->architecture)
        return code;
    gs_product_ptx(&compiler->product, &kernel);
    source->text = kernel.data;
    source->size = kernel.count;
    return kernel.failed ? gs_fail_memory(error) : GS_OK;
}

/* NVRTC if it is installed, because it is faster, otherwise clang. $GRIDSMITH_COMPILER may name one of them. */
static gs_code choose_compiler(struct compiler *compiler, gs_error *error) {
    const char *wish = getenv("GRIDSMITH_COMPILER");
    char library[300] = "";
    if (is_product(compiler) || !gs_ptx_is_source(compiler->source.text, compiler->source.size))
        return GS_OK;
    bool wants_clang = wish && strcmp(wish, "clang") == 0;
    if (!wants_clang)
        gs_nvrtc_library(library, sizeof library);
    compiler->name = library[0] ? "nvrtc" : "clang";
    if (library[0])
        return gs_dependencies_add_tool(&compiler->dependencies, library, error);
    return gs_ptx_clang(compiler->clang, sizeof compiler->clang)
               ? GS_OK
               : gs_fail(error, GS_E_UNSUPPORTED,
                         "no compiler for CUDA sources was found: NVRTC (libnvrtc.so) or clang++");
}

/* ---- dependencies ---- */

/* NVRTC looks for quoted names in the folder of the source's name, and clang is told to. */
static void folder_of(const struct compiler *compiler, char *folder, size_t size) {
    const char *name = compiler->source.name, *slash = strrchr(name, '/');
    if (name[0] == '/')
        snprintf(folder, size, "%.*s", (int)(slash - name), name);
    else
        snprintf(folder, size, "%s%s%.*s", compiler->scratch, slash ? "/" : "", slash ? (int)(slash - name) : 0, name);
}

/* Headers that clang reads implicitly. */
static const char implied[] = "#include <stdc-predef.h>\n#include \"gridsmith_device.h\"\n"
                              "#include <__clang_cuda_runtime_wrapper.h>\n";

static gs_code find_search(struct compiler *compiler, gs_error *error) {
    if (strcmp(compiler->name, "nvrtc") == 0)
        return gs_include_search_nvrtc(&compiler->dependencies, error);
    char headers[4096];
    snprintf(headers, sizeof headers, "%s/headers", compiler->scratch);
    if (mkdir(headers, 0700) != 0)
        return gs_fail_system(error, "make the folder", headers);
    gs_code code = gs_ptx_clang_headers(headers, error);
    if (code == GS_OK)
        code = gs_include_search_compiler(&compiler->dependencies, &compiler->readable, compiler->clang, "cuda",
                                          headers, error);
    return code == GS_OK ? gs_dependencies_add_text(&compiler->dependencies, "the headers of clang", implied,
                                                    strlen(implied), headers, error)
                         : code;
}

static gs_code find_included(struct compiler *compiler, gs_error *error) {
    gs_dependencies *all = &compiler->dependencies;
    const gs_image_source *source = &compiler->source;
    char folder[4096];
    folder_of(compiler, folder, sizeof folder);
    gs_code code = find_search(compiler, error);
    for (size_t i = 0; i < source->option_count && code == GS_OK; i++)
        code = gs_dependencies_add_option(all, source->options[i], error);
    return code == GS_OK ? gs_dependencies_add_text(all, source->name, source->text, source->size, folder, error)
                         : code;
}

/* Includes of the source, and the tools behind the compiler. */
static gs_code find_dependencies(struct compiler *compiler, gs_error *error) {
    gs_dependencies *all = &compiler->dependencies;
    char ptxas[1000];
    all->own = compiler->scratch;
    gs_code code = choose_compiler(compiler, error);
    if (code == GS_OK && compiler->name)
        code = find_included(compiler, error);
    if (code == GS_OK && compiler->host)
        return gs_include_search_tool(all, &compiler->readable, gs_host_compiler(compiler->host),
                                      gs_host_folder(compiler->host), error);
    if (code == GS_OK && !is_product(compiler) && gs_assembler_find(ptxas, sizeof ptxas)) {
        code = gs_dependencies_add_tool(all, ptxas, error);
        if (code == GS_OK && !gs_readable_add(&compiler->readable, ptxas))
            code = gs_fail_memory(error);
    }
    return code;
}

static gs_code enter_sandbox(struct compiler *compiler, gs_error *error) {
    const gs_dependencies *all = &compiler->dependencies;
    bool is_good = gs_readable_add_system(&compiler->readable);
    for (size_t i = 0; i < all->count && is_good; i++)
        if (all->data[i].dependency.kind != GS_DEPENDENCY_ABSENT && strncmp(all->data[i].path, "/usr/", 5) != 0)
            is_good = gs_readable_add(&compiler->readable, all->data[i].path);
    return is_good ? gs_sandbox_enter(&compiler->readable, compiler->scratch, error) : gs_fail_memory(error);
}

/* ---- the image ---- */

/* What compilers print when they reach a limit of the system, and its meaning. */
static void explain_limits(const gs_compiler_limits *limits, gs_error *error) {
    static const struct {
        const char *words, *meaning;
        size_t limit;
    } table[] = {
        {"out of memory", "the compiler needed more than %u MB", offsetof(gs_compiler_limits, memory_mb)},
        {"emory exhausted", "the compiler needed more than %u MB", offsetof(gs_compiler_limits, memory_mb)},
        {"bad_alloc", "the compiler needed more than %u MB", offsetof(gs_compiler_limits, memory_mb)},
        {"Cannot allocate memory", "the compiler needed more than %u MB", offsetof(gs_compiler_limits, memory_mb)},
        {"File size limit", "the compiler wrote more than %u MB", offsetof(gs_compiler_limits, output_mb)},
        {"File too large", "the compiler wrote more than %u MB", offsetof(gs_compiler_limits, output_mb)},
        {"CPU time limit", "the compiler took longer than %u s", offsetof(gs_compiler_limits, seconds)},
    };
    for (size_t i = 0; i < GS_COUNT(table); i++)
        if (strstr(error->message, table[i].words)) {
            uint32_t limit;
            memcpy(&limit, (const char *)limits + table[i].limit, sizeof limit);
            error->code = GS_E_KERNEL;
            snprintf(error->message, sizeof error->message, table[i].meaning, limit);
            return;
        }
}

static gs_code compile_forms(struct compiler *compiler, gs_error *error) {
    const gs_compiler_shared *shared = compiler->shared;
    gs_image_made *made = calloc(1, sizeof *made);
    gs_forms_request request = {.source = &compiler->source,
                                .product = is_product(compiler) ? &compiler->product : NULL,
                                .compiler = compiler->name,
                                .architecture = shared->architecture,
                                .counts_blocks = shared->counts_blocks,
                                .host = compiler->host};
    gs_code code = made ? gs_forms_compile(&request, made, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_image_write("image", made, &compiler->dependencies,
                              (uint32_t)gs_min_u64(shared->limits.output_mb, GS_IMAGE_MB), error);
    return code; /* the process ends: nothing is freed, and the daemon removes the folder */
}

static gs_code compile_image(struct compiler *compiler, gs_error *error) {
    gs_code code = read_source(compiler, error);
    if (code == GS_OK)
        code = read_product(compiler, error);
    if (code == GS_OK && !compiler->shared->architecture) {
        compiler->host = gs_host_open(error);
        code = compiler->host ? GS_OK : error->code;
    }
    if (code == GS_OK)
        code = find_dependencies(compiler, error);
    if (code == GS_OK)
        code = enter_sandbox(compiler, error);
    if (code == GS_OK)
        code = compile_forms(compiler, error);
    if (code != GS_OK) {
        explain_limits(&compiler->shared->limits, error);
        return error->code;
    }
    compiler->shared->is_stable =
        !compiler->dependencies.is_incomplete && gs_dependencies_hold(&compiler->dependencies);
    return GS_OK;
}

/* ---- the process ---- */

static void end_group(int number) {
    (void)number;
    kill(0, SIGKILL);
}

int gs_compiler_process(int argc, char **argv) {
    enum { SCRATCH = 1, WORDS };
    static struct compiler compiler;
    gs_error error = {.code = GS_OK};
    signal(SIGTERM, end_group);
    if (argc != WORDS || chdir(argv[SCRATCH]) != 0)
        return gs_code_exit(GS_E_USAGE);
    gs_compiler_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, GS_COMPILER_SHARED, 0);
    if (shared == MAP_FAILED)
        return gs_code_exit(GS_E_MEMORY);
    umask(077);
    gs_sandbox_limit(&shared->limits);
    if (shared->has_others)
        gs_sandbox_lower_priority();
    compiler.shared = shared;
    compiler.scratch = argv[SCRATCH];
    error.code = compile_image(&compiler, &error);
    shared->code = error.code;
    shared->error = error;
    shared->is_done = 1;
    _exit(gs_code_exit(error.code));
}
