/*
 * test_traps.c: small kernels, each with one construct that makes reshaping hard (tests/traps).
 *
 * Each file is a kernel `trap(int *out, const int *in, int n)` with comments at its top:
 *
 *   // refuse: LINE:COLUMN: message  it must be refused there, with this message
 *   // launch: {...}                 grid, block and shared_bytes, if they are not the usual ones
 *   // kernel: NAME                  the name of the kernel, if it is not `trap`
 *   // other: NAME                   another kernel of the file, which must not change
 *   // only: cuda                    the CPU cannot run it; `host`: NVRTC cannot compile it
 *
 * A kernel that is accepted runs as original, persistent and confined, with few and many worker blocks and with stops:
 * the results must be the same, and each block must run once. All kernels are in three modules, one for each form, and
 * each trap is in a namespace of its own: so the C++ compiler runs three times, not two hundred times. If NVRTC is
 * installed, it compiles them too.
 */
#include "test.h"

#include "forms.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRAPS = 200 };

struct trap {
    formed formed; /* the first member, see forms.h */
    char *text;
    size_t size;
    char refuse[300];
    bool only_cuda, only_host;
};

static struct trap traps[MOST_TRAPS];
static size_t trap_count;

/* ---- reading ---- */

/* Copies the text after `// WORD: ` of the line that has it. */
static void find_note(const struct trap *trap, const char *word, char *into, size_t size) {
    char start[40];
    snprintf(start, sizeof start, "// %s: ", word);
    const char *at = strstr(trap->text, start);
    if (at)
        snprintf(into, size, "%.*s", (int)strcspn(at + strlen(start), "\r\n"), at + strlen(start));
}

static gs_launch_file *launch_of(const struct trap *trap) {
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
    gs_input *input = gs_input_memory(trap->formed.name, text.data, text.count, &error);
    gs_launch_file *launch = gs_launch_read(input, &error);
    if (!launch)
        fail_msg("%s: %s", trap->formed.name, error.message);
    gs_input_close(input);
    gs_text_free(&text);
    return launch;
}

static void read_trap(struct trap *trap, const char *file) {
    char path[300], only[20] = "";
    gs_error error;
    snprintf(trap->formed.name, sizeof trap->formed.name, "%.*s", (int)(strlen(file) - 3), file);
    snprintf(path, sizeof path, "tests/traps/%s", file);
    assert_int_equal(gs_input_all(test_path(path), 1 << 20, &trap->text, &trap->size, &error), GS_OK);
    snprintf(trap->formed.kernel, sizeof trap->formed.kernel, "trap");
    find_note(trap, "refuse", trap->refuse, sizeof trap->refuse);
    find_note(trap, "kernel", trap->formed.kernel, sizeof trap->formed.kernel);
    find_note(trap, "other", trap->formed.other, sizeof trap->formed.other);
    find_note(trap, "only", only, sizeof only);
    trap->only_cuda = strcmp(only, "cuda") == 0;
    trap->only_host = strcmp(only, "host") == 0;
    trap->formed.launch = launch_of(trap);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct trap *)a)->formed.name, ((const struct trap *)b)->formed.name);
}

static int read_all(void **state) {
    DIR *folder = opendir(test_path("tests/traps"));
    (void)state;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strlen(entry->d_name) > 3 && strcmp(entry->d_name + strlen(entry->d_name) - 3, ".cu") == 0) {
            assert_true(trap_count < MOST_TRAPS);
            read_trap(&traps[trap_count++], entry->d_name);
        }
    closedir(folder);
    qsort(traps, trap_count, sizeof *traps, by_name);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    for (size_t i = 0; i < trap_count; i++) {
        free(traps[i].text);
        forms_free(&traps[i].formed);
    }
    return 0;
}

/* ---- reshaping ---- */

static void reshape(struct trap *trap, enum gs_form form) {
    gs_source source;
    char folder[300], wanted[500] = "", found[700] = "";
    gs_error error;
    snprintf(folder, sizeof folder, "%s", test_path("tests/traps"));
    gs_reshape_options options = {.form = form, .folder = folder};
    gs_code code = gs_source_read(&source, trap->formed.name, trap->text, trap->size, &error);
    if (code == GS_OK) {
        code = gs_reshape(&source, trap->formed.kernel, &options, &trap->formed.text[form], &error);
        gs_source_free(&source);
    }
    if (code != GS_OK)
        gs_error_text(&error, found, sizeof found);
    if (trap->refuse[0])
        snprintf(wanted, sizeof wanted, "%s:%s", trap->formed.name, trap->refuse);
    if (strncmp(found, wanted, strlen(wanted)) != 0 || (found[0] && !wanted[0]))
        fail_msg("%s, %s: \"%s\", not \"%s\"", trap->formed.name, gs_form_name(form), found, wanted);
    if (trap->refuse[0])
        assert_true(code == GS_E_REFUSED || code == GS_E_SYNTAX);
}

static void what_is_unsafe_is_refused_where_it_is(void **state) {
    size_t refused = 0;
    (void)state;
    for (size_t i = 0; i < trap_count; i++) {
        reshape(&traps[i], GS_FORM_PERSISTENT);
        reshape(&traps[i], GS_FORM_CONFINED);
        gs_text_put(&traps[i].formed.text[GS_FORM_ORIGINAL], traps[i].text, traps[i].size);
        refused += traps[i].refuse[0] != '\0';
    }
    print_message("%zu traps: %zu accepted, %zu refused\n", trap_count, trap_count - refused, refused);
    assert_true(trap_count - refused >= 40);
}

/* ---- running ---- */

static bool runs(const struct trap *trap, bool on_cuda) {
    return !trap->refuse[0] && !(on_cuda ? trap->only_host : trap->only_cuda);
}

static void what_is_accepted_computes_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < trap_count; i++)
        traps[i].formed.is_left_out = !runs(&traps[i], forms_run_on_cuda());
    forms_check(&traps[0].formed, sizeof traps[0], trap_count);
}

/* ---- NVIDIA's compiler, if it is installed ---- */

static void nvrtc_compiles_what_is_accepted(void **state) {
    gs_error error;
    char folder[300];
    (void)state;
    snprintf(folder, sizeof folder, "-I%s", test_path("tests/traps"));
    const char *options[] = {folder};
    for (size_t i = 0; i < trap_count; i++)
        traps[i].formed.is_left_out = !runs(&traps[i], true);
    for (int form = 0; form < FORMS; form++) {
        gs_text text = {0};
        forms_put_all(&traps[0].formed, sizeof traps[0], trap_count, form, &text);
        gs_build build = {
            .name = "traps", .text = text.data, .size = text.count, .options = options, .option_count = 1};
        gs_code code = gs_cubin_costs(&build, 90, NULL, &error);
        gs_text_free(&text);
        if (code == GS_E_NO_GPU) {
            print_message("skipped: %s\n", error.message);
            skip();
        }
        if (code != GS_OK)
            fail_msg("%s: %s:%ld: %s", gs_form_name((enum gs_form)form), error.file, error.line, error.message);
    }
}

/* `test_traps nvrtc` is a separate test, which is not run under sanitizers: NVRTC leaks. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unsafe_is_refused_where_it_is),
        cmocka_unit_test(what_is_accepted_computes_the_same),
    };
    const struct CMUnitTest nvrtc[] = {
        cmocka_unit_test(what_is_unsafe_is_refused_where_it_is),
        cmocka_unit_test(nvrtc_compiles_what_is_accepted),
    };
    if (argc > 1 && strcmp(argv[1], "nvrtc") == 0)
        return cmocka_run_group_tests(nvrtc, read_all, free_all);
    return cmocka_run_group_tests(tests, read_all, free_all);
}
