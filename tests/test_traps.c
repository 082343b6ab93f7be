/*
 * test_traps.c: small nasty kernels, one for each thing that goes wrong when a kernel is reshaped (tests/traps).
 *
 * Each file is a kernel `trap(int *out, const int *in, int n)` and says in comments at its top what is to happen:
 *
 *   // refuse: LINE:COLUMN: words    it is refused there, and says so
 *   // launch: {...}                 grid, block and shared_bytes, where they are not the usual ones
 *   // kernel: NAME                  how it is called, where not `trap`
 *   // other: NAME                   another kernel of the file, which must do what it did
 *   // only: cuda                    the CPU cannot run it; `host`: NVRTC cannot compile it
 *
 * What is accepted runs as it was, persistent and confined, with few and many workers and with stops: the same bytes
 * come out, and each block runs once. All of them are three programs, one for each form, each trap in a namespace of
 * its own: the C++ compiler starts three times, not two hundred. Where there is NVRTC it compiles them too.
 */
#include "test.h"

#include "reshape/variant.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRAPS = 200, FORMS = 3 };

struct trap {
    char name[80];
    char *text;
    size_t size;
    char refuse[300], kernel[100], other[100];
    bool only_cuda, only_host;
    gs_launch_file *launch;
    gs_text reshaped[FORMS];
};

static struct trap traps[MOST_TRAPS];
static size_t trap_count;

/* ---- reading ---- */

/* What stands after `// WORD: ` on a line of its own. */
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
    gs_input *input = gs_input_memory(trap->name, text.data, text.count, &error);
    gs_launch_file *launch = gs_launch_read(input, &error);
    if (!launch)
        fail_msg("%s: %s", trap->name, error.message);
    gs_input_close(input);
    gs_text_free(&text);
    return launch;
}

static void read_trap(struct trap *trap, const char *file) {
    char path[300], only[20] = "";
    gs_error error;
    snprintf(trap->name, sizeof trap->name, "%.*s", (int)(strlen(file) - 3), file);
    snprintf(path, sizeof path, "tests/traps/%s", file);
    assert_int_equal(gs_input_all(test_path(path), 1 << 20, &trap->text, &trap->size, &error), GS_OK);
    snprintf(trap->kernel, sizeof trap->kernel, "trap");
    find_note(trap, "refuse", trap->refuse, sizeof trap->refuse);
    find_note(trap, "kernel", trap->kernel, sizeof trap->kernel);
    find_note(trap, "other", trap->other, sizeof trap->other);
    find_note(trap, "only", only, sizeof only);
    trap->only_cuda = strcmp(only, "cuda") == 0;
    trap->only_host = strcmp(only, "host") == 0;
    trap->launch = launch_of(trap);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct trap *)a)->name, ((const struct trap *)b)->name);
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
        gs_launch_free(traps[i].launch);
        for (int form = 0; form < FORMS; form++)
            gs_text_free(&traps[i].reshaped[form]);
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
    gs_code code = gs_source_read(&source, trap->name, trap->text, trap->size, &error);
    if (code == GS_OK) {
        code = gs_reshape(&source, trap->kernel, &options, &trap->reshaped[form], &error);
        gs_source_free(&source);
    }
    if (code != GS_OK)
        gs_error_text(&error, found, sizeof found);
    if (trap->refuse[0])
        snprintf(wanted, sizeof wanted, "%s:%s", trap->name, trap->refuse);
    if (strncmp(found, wanted, strlen(wanted)) != 0 || (found[0] && !wanted[0]))
        fail_msg("%s, %s: \"%s\", not \"%s\"", trap->name, gs_form_name(form), found, wanted);
    if (trap->refuse[0])
        assert_true(code == GS_E_REFUSED || code == GS_E_SYNTAX);
}

static void what_is_unsafe_is_refused_where_it_is(void **state) {
    size_t refused = 0;
    (void)state;
    for (size_t i = 0; i < trap_count; i++) {
        reshape(&traps[i], GS_FORM_PERSISTENT);
        reshape(&traps[i], GS_FORM_CONFINED);
        gs_text_put(&traps[i].reshaped[GS_FORM_ORIGINAL], traps[i].text, traps[i].size);
        refused += traps[i].refuse[0] != '\0';
    }
    print_message("%zu traps: %zu accepted, %zu refused\n", trap_count, trap_count - refused, refused);
    assert_true(trap_count - refused >= 40);
}

/* ---- running ---- */

static bool runs(const struct trap *trap, bool on_cuda) {
    return !trap->refuse[0] && !(on_cuda ? trap->only_host : trap->only_cuda);
}

/* All traps in one source, each in a namespace, and what one defines undefined for the next. */
static void put_all(gs_text *into, int form, bool on_cuda) {
    static const char *const guards[] = {"PERSISTENT", "CONFINED", "MARK", "BLOCK", "LANES", "SYNC"};
    for (size_t i = 0; i < trap_count; i++) {
        if (!runs(&traps[i], on_cuda))
            continue;
        gs_text_add(into, "namespace %s {\n", traps[i].name);
        gs_text_put(into, traps[i].reshaped[form].data, traps[i].reshaped[form].count);
        gs_text_add(into, "\n}\n");
        for (size_t k = 0; k < GS_COUNT(guards); k++)
            gs_text_add(into, "#undef GRIDSMITH_%s\n", guards[k]);
    }
}

/* extern "C" kernels have their plain name in every namespace. */
static void name_in_program(const struct trap *trap, const char *kernel, char *into, size_t size) {
    snprintf(into, size, "%.79s::%.99s", trap->name, kernel);
}

struct programs {
    gs_executor *executor;
    void *programs[FORMS];
    char names[2 * MOST_TRAPS][200];
    const char *kernels[2 * MOST_TRAPS];
    size_t count;
};

static void compile_all(struct programs *all) {
    static const char *const options[] = {"-DGRIDSMITH_MARKS", "-O1"};
    gs_error error;
    all->executor = gs_executor_host(&error);
    assert_non_null(all->executor);
    for (size_t i = 0; i < trap_count; i++) {
        if (!runs(&traps[i], false))
            continue;
        for (int k = 0; k < (traps[i].other[0] ? 2 : 1); k++) {
            all->kernels[all->count] = all->names[all->count];
            name_in_program(&traps[i], k ? traps[i].other : traps[i].kernel, all->names[all->count], 200);
            all->count++;
        }
    }
    for (int form = 0; form < FORMS; form++) {
        gs_text text = {0};
        put_all(&text, form, false);
        gs_build build = {.name = "traps",
                          .text = text.data,
                          .size = text.count,
                          .kernels = all->kernels,
                          .kernel_count = all->count,
                          .options = options,
                          .option_count = GS_COUNT(options)};
        all->programs[form] = all->executor->ops->compile(all->executor, &build, &error);
        if (!all->programs[form])
            fail_msg("%s", error.message);
        gs_text_free(&text);
    }
}

static void run_trial(const struct trap *trap, const char *kernel, gs_trial *trial, int form, enum gs_form as) {
    gs_error error;
    name_in_program(trap, kernel, trial->variant->kernel, sizeof trial->variant->kernel);
    trial->variant->form = as;
    if (gs_trial_run(trial, &error) != GS_OK)
        fail_msg("%s, %s in the %s program: %s:%ld: %s", trap->name, kernel, gs_form_name(form), error.file, error.line,
                 error.message);
}

static void compare(const struct trap *trap, const gs_trial *original, const gs_trial *trial, enum gs_form form) {
    gs_error reason;
    size_t argument, element;
    if (!gs_trials_agree(original, trial, 0, &reason, &argument, &element))
        fail_msg("%s as %s, %u workers, %u stops: %s", trap->name, gs_form_name(form), trial->options->workers,
                 trial->options->stops, reason.message);
    for (uint64_t i = 0; i < trial->blocks && trial->marks; i++)
        if (trial->marks[i] != 1)
            fail_msg("%s as %s: block %llu ran %u times", trap->name, gs_form_name(form), (unsigned long long)i,
                     trial->marks[i]);
}

static void check_trap(const struct programs *all, const struct trap *trap) {
    static const struct {
        int form;
        uint32_t workers, task_blocks, stops;
    } ways[] = {{GS_FORM_PERSISTENT, 1, 0, 0}, {GS_FORM_PERSISTENT, 5, 0, 0}, {GS_FORM_PERSISTENT, 200, 0, 0},
                {GS_FORM_CONFINED, 3, 1, 0},   {GS_FORM_CONFINED, 0, 2, 4},   {GS_FORM_CONFINED, 0, 10, 2}};
    gs_verify_options plain = {.seconds = 60};
    gs_variant variants[2] = {gs_variant_original(trap->launch, ""), gs_variant_original(trap->launch, "")};
    gs_trial original = {.executor = all->executor,
                         .launch = trap->launch,
                         .options = &plain,
                         .variant = &variants[0],
                         .program = all->programs[GS_FORM_ORIGINAL]};
    gs_trial trial = original;
    trial.variant = &variants[1];
    run_trial(trap, trap->kernel, &original, GS_FORM_ORIGINAL, GS_FORM_ORIGINAL);
    for (size_t i = 0; i < GS_COUNT(ways); i++) {
        gs_verify_options options = {.seconds = 60,
                                     .workers = ways[i].workers,
                                     .task_blocks = ways[i].task_blocks,
                                     .stops = ways[i].stops,
                                     .seed = i};
        trial.options = &options;
        trial.backwards = i % 2;
        trial.program = all->programs[ways[i].form];
        run_trial(trap, trap->kernel, &trial, ways[i].form, (enum gs_form)ways[i].form);
        compare(trap, &original, &trial, (enum gs_form)ways[i].form);
    }
    trial.options = &plain;
    for (int form = GS_FORM_PERSISTENT; form < FORMS && trap->other[0]; form++) {
        run_trial(trap, trap->other, &original, GS_FORM_ORIGINAL, GS_FORM_ORIGINAL);
        trial.program = all->programs[form];
        run_trial(trap, trap->other, &trial, form, GS_FORM_ORIGINAL);
        compare(trap, &original, &trial, GS_FORM_ORIGINAL);
    }
    gs_trial_free(&original);
    gs_trial_free(&trial);
}

static void what_is_accepted_computes_the_same(void **state) {
    static struct programs all;
    (void)state;
    compile_all(&all);
    for (size_t i = 0; i < trap_count; i++)
        if (runs(&traps[i], false))
            check_trap(&all, &traps[i]);
    gs_executor_close(all.executor);
}

/* ---- NVIDIA's compiler, where it is ---- */

static void nvrtc_compiles_what_is_accepted(void **state) {
    gs_error error;
    char folder[300];
    (void)state;
    snprintf(folder, sizeof folder, "-I%s", test_path("tests/traps"));
    const char *options[] = {folder};
    for (int form = 0; form < FORMS; form++) {
        gs_text text = {0};
        put_all(&text, form, true);
        gs_build build = {
            .name = "traps", .text = text.data, .size = text.count, .options = options, .option_count = 1};
        gs_code code = gs_nvrtc_try(&build, 90, NULL, &error);
        gs_text_free(&text);
        if (code == GS_E_NO_GPU) {
            print_message("skipped: %s\n", error.message);
            skip();
        }
        if (code != GS_OK)
            fail_msg("%s: %s:%ld: %s", gs_form_name((enum gs_form)form), error.file, error.line, error.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unsafe_is_refused_where_it_is),
        cmocka_unit_test(what_is_accepted_computes_the_same),
        cmocka_unit_test(nvrtc_compiles_what_is_accepted),
    };
    return cmocka_run_group_tests(tests, read_all, free_all);
}
