/*
 * fuzz_what_if.c: any text as the changes of a what-if, as a range and as names of kernels: what is read is within its
 * limits, a part is inside the program, and names that differ have short names that differ.
 */
#include "fuzz.h"

#include "model/explain/explain.h"

static void shorten(char *text) {
    gs_short_names names = {0};
    gs_names taken = {0};
    gs_error error;
    char *rest = text;
    for (char *name = strtok_r(text, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        if (gs_short_names_add(&names, name, &error) != GS_OK)
            abort();
    if (gs_short_names_make(&names, &error) != GS_OK)
        abort();
    for (size_t i = 0; i < names.by_name.capacity; i++) {
        const char *name = names.by_name.slots[i].name;
        const char *brief = name ? gs_short_name(&names, name) : NULL;
        if (brief && (strlen(brief) > GS_SHORT_NAME || gs_names_add(&taken, brief, i) != i))
            abort();
    }
    gs_names_free(&taken);
    gs_short_names_clear(&names);
}

/* Five launches, in two ranges of one name and in one range that has a number. */
static gs_run *make_program(void) {
    gs_run *run = gs_run_new(NULL);
    for (int i = 0; i < 5; i++) {
        gs_launch launch = gs_launch_default();
        launch.kernel = "k";
        launch.blocks = 1 + i % 2;
        launch.shape = gs_shape_of(128, 32, 0);
        launch.issue = gs_issue_none();
        launch.issue.id = (char[]){(char)('a' + i), 0};
        launch.issue.at_ns = 1000 * i;
        launch.issue.start_ns = 1000 * i + 100;
        launch.issue.end_ns = 1000 * i + 600;
        if (!run || gs_run_copy_launch(run, &launch, NULL) != GS_OK)
            abort();
    }
    if (gs_run_add_range(run, "a", 0, 2000, NULL) != GS_OK || gs_run_add_range(run, "a", 2000, 4000, NULL) != GS_OK ||
        gs_run_add_range(run, "b#7", 500, 9000, NULL) != GS_OK)
        abort();
    return run;
}

static void choose(const char *words) {
    gs_run *run = make_program();
    gs_sequence order = {0};
    gs_part part;
    gs_error error = {0};
    if (gs_sequence_of(run, &order, &error) != GS_OK)
        abort();
    if (gs_part_read(run, &order, words, &part, &error) == GS_OK &&
        (part.first >= part.last || part.last > order.count))
        abort();
    gs_sequence_clear(&order);
    gs_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    gs_what_if what_if;
    gs_error error = {0};
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (gs_what_if_read(text, &what_if, &error) == GS_OK && (!what_if.count || what_if.count > GS_WHAT_IF_CHANGES))
        abort();
    choose(text);
    shorten(text);
    free(text);
    return 0;
}
