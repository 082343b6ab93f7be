/*
 * test_traps.c: small kernels, each with one construct that makes reshaping hard (tests/traps).
 *
 * Forms are made of PTX, so how a source is written is a compiler's concern: a few files stand for that and for the
 * names of kernels (comment_and_string, odd_numbers, spliced_lines, windows_lines,
 * preprocessor_branches, header_with_blocks, names_of_ours, whole_variables, namespaces, extern_c_block,
 * template_specialized).
 *
 * Each file is a kernel `trap(int *out, const int *in, int n)` with comments at its top:
 *
 *   // refuse: MESSAGE  it must be refused, with a message that begins so
 *   // launch: {...}    grid, block and shared_bytes, if they are not the usual ones
 *   // kernel: NAME     the name of the kernel, if it is not `trap`
 *
 * A kernel that is accepted runs as original, persistent and confined, with few and many worker blocks and with stops:
 * the results must be the same, and each block must run once (forms.c). Files that end in .ptx are for constructs that
 * clang cannot compile without CUDA's headers: cooperative groups, clusters, launches from the device. Their first line
 * has the command that made them. Those with calls through a pointer are written by hand, because such a call may reach
 * any function of the module.
 */
#include "test.h"

#include "run_forms.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRAPS = 200 };

struct trap {
    formed formed; /* the first member, see forms.h */
    char refuse[300];
};

/* Those of CUDA C are one text of PTX; each of the others is a text of its own. */
static struct trap traps[MOST_TRAPS], ptx_traps[MOST_TRAPS];
static size_t trap_count, ptx_trap_count;
static gs_text ptx, ptx_texts[MOST_TRAPS];

/* ---- reading ---- */

/* Copies the text after `// WORD: ` of the line that has it. */
static void find_note(const formed *trap, const char *word, char *into, size_t size) {
    char start[40];
    snprintf(start, sizeof start, "// %s: ", word);
    const char *at = strstr(trap->text.data, start);
    if (at)
        snprintf(into, size, "%.*s", (int)strcspn(at + strlen(start), "\r\n"), at + strlen(start));
}

static gs_launch_file *launch_of(const formed *trap) {
    char note[200] = "{\"grid\": [7, 1, 1], \"block\": [64, 1, 1]}";
    gs_text text = {0};
    gs_error error;
    find_note(trap, "launch", note, sizeof note);
    note[strlen(note) - 1] = '\0';
    gs_text_add(&text,
                "%s, \"schema\": \"gridsmith.launch/1\", \"arguments\": [{\"buffer\": \"int32\", \"count\": 5000, "
                "\"fill\": \"zero\"}, {\"buffer\": \"int32\", \"count\": 5000, \"fill\": \"random\", \"seed\": 3}, "
                "{\"int32\": 400}]}",
                note);
    gs_input *input = gs_input_memory(trap->name, text.data, text.count, &error);
    gs_launch_file *launch = gs_launch_read(input, &error);
    if (!launch)
        fail_msg("%s: %s", trap->name, error.message);
    gs_input_close(input);
    gs_text_free(&text);
    return launch;
}

static void read_trap(struct trap *trap, const char *file, size_t ending) {
    char path[300], *text = NULL;
    size_t size;
    gs_error error;
    formed *it = &trap->formed;
    snprintf(it->name, sizeof it->name, "%.*s", (int)(strlen(file) - ending), file);
    snprintf(path, sizeof path, "tests/traps/%s", file);
    assert_int_equal(gs_input_all(test_path(path), 1 << 20, &text, &size, &error), GS_OK);
    gs_text_put(&it->text, text, size);
    free(text);
    snprintf(it->kernel, sizeof it->kernel, "trap");
    find_note(it, "refuse", trap->refuse, sizeof trap->refuse);
    find_note(it, "kernel", it->kernel, sizeof it->kernel);
    it->launch = launch_of(it);
}

static bool ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct trap *)a)->formed.name, ((const struct trap *)b)->formed.name);
}

/* Each PTX file is followed by its forms. Its symbol is that of `trap(int *, const int *, int)`, or "trap". */
static void make_ptx_trap(formed *it, gs_text *text) {
    *text = it->text;
    it->text = (gs_text){0};
    snprintf(it->symbol, sizeof it->symbol, "%s", strstr(text->data, "_Z4trapPiPKii") ? "_Z4trapPiPKii" : "trap");
    forms_make(it, sizeof *it, 1, text);
}

static int read_all(void **state) {
    DIR *folder = opendir(test_path("tests/traps"));
    (void)state;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_true(trap_count < MOST_TRAPS && ptx_trap_count < MOST_TRAPS);
        if (ends_in(entry->d_name, ".cu"))
            read_trap(&traps[trap_count++], entry->d_name, 3);
        else if (ends_in(entry->d_name, ".ptx"))
            read_trap(&ptx_traps[ptx_trap_count++], entry->d_name, 4);
    }
    closedir(folder);
    qsort(traps, trap_count, sizeof *traps, by_name);
    qsort(ptx_traps, ptx_trap_count, sizeof *ptx_traps, by_name);
    forms_compile(&traps[0].formed, sizeof traps[0], trap_count, test_path("tests/traps"), &ptx);
    forms_make(&traps[0].formed, sizeof traps[0], trap_count, &ptx);
    for (size_t i = 0; i < ptx_trap_count; i++)
        make_ptx_trap(&ptx_traps[i].formed, &ptx_texts[i]);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    for (size_t i = 0; i < trap_count; i++)
        forms_free(&traps[i].formed);
    for (size_t i = 0; i < ptx_trap_count; i++) {
        forms_free(&ptx_traps[i].formed);
        gs_text_free(&ptx_texts[i]);
    }
    gs_text_free(&ptx);
    return 0;
}

/* ---- tests ---- */

static size_t check_refusals(const struct trap *list, size_t count) {
    size_t more = 0;
    for (size_t i = 0; i < count; i++) {
        const char *found = list[i].formed.refusal.code == GS_OK ? "" : list[i].formed.refusal.message;
        if (list[i].refuse[0] ? !strncmp(found, list[i].refuse, strlen(list[i].refuse)) : !found[0])
            continue;
        print_message("%s is refused with \"%s\", not \"%s\"\n", list[i].formed.name, found, list[i].refuse);
        assert_false(list[i].refuse[0]);
        more++;
    }
    return more;
}

static size_t count_refused(const struct trap *list, size_t count) {
    size_t refused = 0;
    for (size_t i = 0; i < count; i++)
        refused += list[i].formed.refusal.code != GS_OK;
    return refused;
}

/* Some compilers join branches of a CUDA kernel so that its PTX is refused, where others do not. */
TEST(what_is_unsafe_is_refused) {
    enum { MOST_JOINED = 2 };
    size_t refused = count_refused(traps, trap_count) + count_refused(ptx_traps, ptx_trap_count),
           all = trap_count + ptx_trap_count;
    print_message("%zu traps: %zu accepted, %zu refused\n", all, all - refused, refused);
    assert_true(refused >= 5 && all - refused >= 45);
    assert_int_equal(check_refusals(ptx_traps, ptx_trap_count), 0);
    assert_in_range(check_refusals(traps, trap_count), 0, MOST_JOINED);
}

TEST(what_is_accepted_computes_the_same) {
    /* Compilers take most of the time, and no sanitizer looks at them: every third is compiled. */
    size_t step = test_number("GRIDSMITH_RUNS", 100000) >= 4000 ? 1 : 3;
    forms_check(&traps[0].formed, step * sizeof traps[0], (trap_count + step - 1) / step, &ptx);
    for (size_t i = 0; i < ptx_trap_count; i++)
        if (ptx_traps[i].formed.refusal.code == GS_OK)
            forms_check(&ptx_traps[i].formed, sizeof ptx_traps[0], 1, &ptx_texts[i]);
}

TEST_MAIN(read_all, free_all)
