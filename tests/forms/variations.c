/*
 * variations.c: what is decided of a kernel, and of the kernels that differ from it in one statement. See variations.h.
 */
#include "variations.h"

#include "answers.h"
#include "facts.h"
#include "kernels/forms/forms.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct {
    FILE *file;
    char name[40];
    size_t line;
} opened;

enum { FEW = 8 }; /* with few GRIDSMITH_RUNS only every eighth kernel is varied */

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
    snprintf(path, sizeof path, "tests/forms/facts/%s.txt", name);
    answers_open(path);
}

void variations_close(void) {
    if (!is_written())
        assert_int_equal(fgetc(opened.file), EOF);
    fclose(opened.file);
    answers_close();
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

/* The next number in a statement, at `at` or behind it, that is not part of a word; or NULL. */
static const char *find_number(const char *at, const char *end) {
    for (; at < end; at++)
        if (isdigit((unsigned char)*at) && strchr(" +,[-", at[-1]))
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
    {"add.u32", "add.s32"},
    {"mul.lo", "add"},
    {"mul.wide.u32", "mul.wide.s32"},
    {"mad.lo", "mad.hi"},
    {"shl", "shr"},
    {"mov.u32", "not.b32"},
    {"min.u32", "max.u32"},
    {"and.b32", "or.b32"},
    {"or.b32", "and.b32"},
    {"rem.u32", "div.u32"},
    {"cvt.u64.u32", "cvt.s64.s32"},
    {".u32", ".u16"},
    {".u32", ".u8"},
    {".u64", ".s64"},
    {".volatile", ""},
    {".volatile", ".relaxed.gpu"},
    {".cg", ""},
    {"ld.global", "ld.volatile.global"},
    {"st.global", "red.global.add"},
    {".global", ""},
    {".shared", ".local"},
    {"atom.global.add", "atom.global.max"},
    {"atom.global.exch.b32", "atom.global.or.b32"},
    {"atom.global.cas.b32", "atom.relaxed.cta.global.cas.b32"},
    {"@%", "@!%"},
    {"@!", "@"},
    {"@p", "@!p"},
    {"bar.sync", "bar.arrive"},
    {"bar.sync 0", "bar.sync 1, 64"},
    {"bar.red", "barrier.red"},
    {"vote.sync.ballot", "vote.ballot"},
    {"shfl.sync.bfly", "shfl.sync.idx"},
    {"0xffffffff", "0xffff"},
    {"%tid.x", "%ctaid.x"},
    {"%ctaid.x", "%ctaid.y"},
    {"%ntid.x", "%nctaid.x"},
    {"membar.gl", "membar.cta"},
    {"bra", "bra.uni"},
};

/* ---- variations ---- */

struct kernel {
    const char *name, *text;
    const variations_scope *scope;
};

static void put_letter(gs_text *decisions, char decision) {
    gs_text_put(decisions, &decision, 1);
}

/* The kernel with `count` bytes at `at` replaced. */
static gs_text replaced(const struct kernel *kernel, const char *at, size_t count, const char *by) {
    gs_text text = {0};
    gs_text_put(&text, kernel->text, (size_t)(at - kernel->text));
    gs_text_put(&text, by, strlen(by));
    gs_text_put(&text, at + count, strlen(at + count));
    return text;
}

static char decide_with(const struct kernel *kernel, const char *at, size_t count, const char *by) {
    gs_text text = replaced(kernel, at, count, by);
    gs_error error;
    char decision = decide(&text, kernel->scope->symbol, &error);
    gs_text_free(&text);
    return decision;
}

/* Each number is one more, 0, the largest, and no number but a register. */
static void with_numbers(const struct kernel *kernel, const char *begin, const char *end, gs_text *decisions) {
    for (const char *at = find_number(begin + 1, end); at; at = find_number(at + 1, end)) {
        char by[32], *behind;
        snprintf(by, sizeof by, "%llu", strtoull(at, &behind, 0) + 1);
        put_letter(decisions, decide_with(kernel, at, (size_t)(behind - at), by));
        put_letter(decisions, decide_with(kernel, at, (size_t)(behind - at), "0"));
        put_letter(decisions, decide_with(kernel, at, (size_t)(behind - at), "4294967295"));
        put_letter(decisions, decide_with(kernel, at, (size_t)(behind - at), kernel->scope->value));
    }
}

static void with_others(const struct kernel *kernel, const char *begin, const char *end, gs_text *decisions) {
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        const char *at = strstr(begin, others[i][0]);
        if (at && at < end)
            put_letter(decisions, decide_with(kernel, at, strlen(others[i][0]), others[i][1]));
    }
}

/* A statement in front of it, and a guard or none. */
static void with_more(const struct kernel *kernel, const char *begin, size_t number, gs_text *decisions) {
    const char *const *inserted = kernel->scope->inserted;
    size_t count = 0;
    while (inserted[count])
        count++;
    put_letter(decisions, decide_with(kernel, begin, 0, inserted[number % count]));
    put_letter(decisions, decide_with(kernel, begin, 0, inserted[(number + 1) % count]));
    if (*begin != '@')
        put_letter(decisions, decide_with(kernel, begin, 0, kernel->scope->guard));
}

/* The decisions on all variations of a statement. */
static void decide_statement(const struct kernel *kernel, const char *begin, const char *end, size_t number,
                             gs_text *decisions) {
    put_letter(decisions, decide_with(kernel, begin, (size_t)(end - begin), ""));
    with_numbers(kernel, begin, end, decisions);
    with_others(kernel, begin, end, decisions);
    with_more(kernel, begin, number, decisions);
}

/* ---- facts ---- */

/* One of the variations of a statement; the statement is left out where it has none of this kind. */
static gs_text varied(const struct kernel *kernel, const char *begin, const char *end, size_t number) {
    const char *at = find_number(begin + 1, end);
    size_t first = number / 3;
    if (number % 3 == 0 && *begin != '@')
        return replaced(kernel, begin, 0, kernel->scope->guard);
    if (number % 3 == 1 && at) {
        char by[32], *behind;
        snprintf(by, sizeof by, "%llu", strtoull(at, &behind, 0) + 1);
        return replaced(kernel, at, (size_t)(behind - at), by);
    }
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        const char *const *other = others[(first + i) % GS_COUNT(others)];
        at = strstr(begin, other[0]);
        if (at && at < end)
            return replaced(kernel, at, strlen(other[0]), other[1]);
    }
    return replaced(kernel, begin, (size_t)(end - begin), "");
}

/* What is known of a kernel, without each of its statements, and with a variation of each. */
static void expect_facts(const struct kernel *kernel, const char *from, const char *to, bool is_varied) {
    gs_text text = replaced(kernel, from, 0, "");
    const char *begin = from, *end = from;
    answers_begin(kernel->name);
    answers_expect(facts_of(&text, kernel->scope->symbol));
    gs_text_free(&text);
    for (size_t i = opened.line; is_varied && next_statement(&begin, &end, to); i++) {
        text = i % 2 ? replaced(kernel, begin, (size_t)(end - begin), "") : varied(kernel, begin, end, i / 2);
        answers_expect(facts_of(&text, kernel->scope->symbol));
        gs_text_free(&text);
    }
    answers_end();
}

/* ---- comparisons ---- */

static void expect_decisions(const struct kernel *kernel, const char *statement, size_t length, const char **wanted,
                             const gs_text *found) {
    if (strncmp(*wanted, found->data, found->count) != 0)
        fail_msg("variations/%s.txt:%zu: another decision on the kernel \"%s\" with changes of \"%.*s\": %s, not %.*s",
                 opened.name, opened.line, kernel->name, (int)length, statement, found->data, (int)found->count,
                 *wanted);
    *wanted += found->count;
}

void variations_expect(const char *name, const char *text, const char *from, const char *to,
                       const variations_scope *scope) {
    static char line[1 << 16];
    const struct kernel kernel = {name, text, scope};
    bool has_many = is_written() || test_number("GRIDSMITH_RUNS", 100000) >= 10000;
    bool is_tried = has_many || opened.line % FEW == 0;
    size_t length = strlen(name), number = length;
    const char *wanted = line + length + 1, *begin = from, *end = from;
    opened.line++;
    if (is_written())
        fprintf(opened.file, "%s\t", name);
    else if (!fgets(line, sizeof line, opened.file) || strncmp(line, name, length) != 0 || line[length] != '\t')
        fail_msg("variations/%s.txt:%zu: \"%s\" is expected here", opened.name, opened.line, name);
    expect_facts(&kernel, from, to, has_many || opened.line % FEW == FEW / 2);
    if (!is_tried)
        return;
    gs_text decisions = {0};
    put_letter(&decisions, decide_with(&kernel, from, 0, ""));
    do {
        if (is_written())
            fputs(decisions.data, opened.file);
        else
            expect_decisions(&kernel, begin, (size_t)(end - begin), &wanted, &decisions);
        gs_text_clear(&decisions);
        if (!next_statement(&begin, &end, to))
            break;
        decide_statement(&kernel, begin, end, number++, &decisions);
    } while (true);
    gs_text_free(&decisions);
    if (is_written())
        fputs("\n", opened.file);
}
