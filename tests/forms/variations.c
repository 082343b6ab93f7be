/*
 * variations.c: what is decided of a kernel, and of the kernels that differ from it in one statement. See variations.h.
 */
#include "variations.h"

#include "kernels/forms/forms.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct {
    FILE *file;
    char name[40];
    size_t line;
} opened;

static bool is_written(void) {
    return test_number("GRIDSMITH_WRITE", 0) != 0;
}

void variations_open(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "tests/forms/variations/%s.txt", name);
    snprintf(opened.name, sizeof opened.name, "%s", name);
    opened.file = fopen(test_path(path), is_written() ? "w" : "r");
    opened.line = 0;
    assert_non_null(opened.file);
}

void variations_close(void) {
    if (!is_written())
        assert_int_equal(fgetc(opened.file), EOF);
    fclose(opened.file);
}

/* ---- decisions ---- */

static char letter(char first, uint64_t hash) {
    return (char)(first + hash % 26);
}

/* What a form needs, and its text; of a refused one the reason. */
static char decide(const gs_text *text, const char *symbol, gs_error *error) {
    gs_ptx_module module;
    uint64_t hash = 0;
    *error = (gs_error){.code = GS_OK};
    if (gs_ptx_read(&module, "k.ptx", text->data, text->count, error) != GS_OK)
        return '.';
    int64_t function = gs_ptx_find_function(&module, symbol);
    assert_true(function >= 0);
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED && error->code == GS_OK; form++) {
        gs_ptx_options options = {.form = (enum gs_form)form};
        gs_text into = {0};
        gs_ptx_form made = {.needs_shared = 0};
        if (gs_ptx_reshape(&module, (uint32_t)function, &options, &into, &made, error) == GS_OK) {
            uint32_t needs[] = {made.needs_whole_rows, made.needs_one_row,        made.needs_one_layer,
                                made.needs_queue,      made.needs_shared,         made.exited_threads_wait,
                                made.reduces_masks,    made.warps_are_independent};
            hash = gs_hash(gs_hash(hash, needs, sizeof needs), into.data, into.count);
        } else {
            hash = gs_hash((uint64_t)error->line, error->message, strlen(error->message));
        }
        gs_text_free(&into);
    }
    gs_ptx_free(&module);
    return letter(error->code == GS_OK ? 'A' : 'a', hash);
}

/* ---- statements ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* The next statement: behind blanks, braces and labels, up to its semicolon. False: there is none. */
static bool next_statement(const char **begin, const char **end, const char *last) {
    const char *at = *end;
    for (;;) {
        while (at < last && (isspace((unsigned char)*at) || *at == '{' || *at == '}' || *at == ';'))
            at++;
        const char *word = at;
        while (at < last && is_word(*at))
            at++;
        if (at == word || at >= last || *at != ':') {
            *begin = word;
            break;
        }
        at++;
    }
    *end = memchr(*begin, ';', (size_t)(last - *begin));
    return *end++ != NULL;
}

/* The first of the numbers in a statement that is not part of a word, or NULL. */
static const char *find_number(const char *begin, const char *end) {
    for (const char *at = begin + 1; at < end; at++)
        if (isdigit((unsigned char)*at) && strchr(" +,[-", at[-1]) && *at)
            return at;
    return NULL;
}

static const char *const others[][2] = {
    {"setp.eq", "setp.ne"},
    {"setp.ne", "setp.eq"},
    {"setp.lt", "setp.le"},
    {"setp.ge", "setp.gt"},
    {"setp.gt", "setp.ge"},
    {"setp.le", "setp.lt"},
    {"add.u", "sub.u"},
    {"sub.u", "add.u"},
    {".volatile", ""},
    {"atom.global.add", "atom.global.max"},
    {"exch", "or"},
    {"mul.lo", "add"},
    {"mul.wide.u32", "mul.wide.s32"},
    {"shl", "shr"},
    {"@%", "@!%"},
    {"@!", "@"},
    {"@p", "@!p"},
    {"ld.global", "ld.volatile.global"},
    {"st.shared", "st.volatile.shared"},
    {"bar.sync", "bar.arrive"},
    {"and.b32", "or.b32"},
    {"or.b32", "and.b32"},
    {"rem.u32", "div.u32"},
    {"%tid.x", "%ctaid.x"},
    {"%ctaid.x", "%ctaid.y"},
    {"cvt.u64.u32", "cvt.s64.s32"},
};

/* ---- variations ---- */

struct kernel {
    const char *name, *text, *symbol;
};

/* The kernel with `count` bytes at `at` replaced. */
static char decide_with(const struct kernel *kernel, const char *at, size_t count, const char *by) {
    gs_text text = {0};
    gs_error error;
    gs_text_put(&text, kernel->text, (size_t)(at - kernel->text));
    gs_text_put(&text, by, strlen(by));
    gs_text_put(&text, at + count, strlen(at + count));
    char decision = decide(&text, kernel->symbol, &error);
    gs_text_free(&text);
    return decision;
}

static char without(const struct kernel *kernel, const char *begin, const char *end) {
    return decide_with(kernel, begin, (size_t)(end - begin), "");
}

static char with_number(const struct kernel *kernel, const char *begin, const char *end) {
    const char *at = find_number(begin, end);
    char by[32], *behind;
    if (!at)
        return '_';
    snprintf(by, sizeof by, "%llu", strtoull(at, &behind, 10) + 1);
    return decide_with(kernel, at, (size_t)(behind - at), by);
}

static char with_other(const struct kernel *kernel, const char *begin, const char *end) {
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        const char *at = strstr(begin, others[i][0]);
        if (at && at < end)
            return decide_with(kernel, at, strlen(others[i][0]), others[i][1]);
    }
    return '_';
}

static char *decide_all(const struct kernel *kernel, const char *from, const char *to) {
    char *decisions = calloc(1, 4 + 3 * strlen(from));
    const char *begin, *end = from;
    size_t count = 0;
    assert_non_null(decisions);
    decisions[count++] = decide_with(kernel, from, 0, "");
    while (next_statement(&begin, &end, to)) {
        decisions[count++] = without(kernel, begin, end);
        decisions[count++] = with_number(kernel, begin, end);
        decisions[count++] = with_other(kernel, begin, end);
    }
    return decisions;
}

static void describe_difference(const struct kernel *kernel, const char *from, const char *to, size_t at) {
    static const char *const ways[] = {"without", "with another number in", "with another instruction in"};
    const char *begin = from, *end = from;
    for (size_t i = 0; at > 0 && i <= (at - 1) / 3; i++)
        next_statement(&begin, &end, to);
    fail_msg("variations/%s.txt:%zu: another decision on the kernel \"%s\" %s \"%.*s\"", opened.name, opened.line,
             kernel->name, at ? ways[(at - 1) % 3] : "as it is", at ? (int)(end - begin) : 0, begin);
}

void variations_expect(const char *name, const char *text, const char *from, const char *to, const char *symbol) {
    static char wanted[1 << 16];
    const struct kernel kernel = {name, text, symbol};
    bool is_tried = is_written() || opened.line % 8 == 0 || test_number("GRIDSMITH_RUNS", 100000) >= 10000;
    opened.line++;
    if (!is_written())
        assert_non_null(fgets(wanted, sizeof wanted, opened.file));
    if (!is_tried)
        return;
    char *found = decide_all(&kernel, from, to);
    if (is_written()) {
        fprintf(opened.file, "%s\t%s\n", name, found);
    } else {
        size_t length = strlen(name), at = 0;
        wanted[strcspn(wanted, "\n")] = 0;
        if (strncmp(wanted, name, length) != 0 || wanted[length] != '\t')
            fail_msg("variations/%s.txt:%zu: \"%s\" is expected here", opened.name, opened.line, name);
        while (found[at] && found[at] == wanted[length + 1 + at])
            at++;
        if (found[at] != wanted[length + 1 + at])
            describe_difference(&kernel, from, to, at);
    }
    free(found);
}
