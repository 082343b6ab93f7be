/*
 * kernel_words.c: kernels as words of a command line, NAME=BLOCKSxTHREADS,..., for the commands that take runs. A word
 * of another form is the name of a file.
 */
#include "cmd.h"

#include <string.h>

size_t gs_find_file_word(const gs_words *words) {
    size_t file = words->count;
    for (size_t i = 0; i < words->count; i++)
        if (!gs_is_launch_word(words->data[i]))
            file = file == words->count ? i : SIZE_MAX;
    return file;
}

static gs_code add_kernel_word(gs_run *run, const char *word, gs_error *error) {
    gs_launch launch;
    gs_code code = gs_launch_of_word(word, &launch, error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < run->launches.count; i++)
        if (strcmp(run->launches.data[i].kernel, launch.kernel) == 0) {
            gs_launch_clear(&launch);
            return gs_fail(error, GS_E_USAGE, "\"%.80s\": duplicate name of a kernel", word);
        }
    return gs_run_add_launch(run, &launch, error);
}

static gs_code add_kernel_words(gs_run *run, const gs_words *words, size_t from, size_t to, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = from; i < to && code == GS_OK; i++)
        code = add_kernel_word(run, words->data[i], error);
    return code;
}

/* Gives the latest launch the edges to other launches that it has in another run. Copies are not checked. */
static gs_code add_edges(gs_run *to, size_t first, const gs_run *from, const gs_issue *issue, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count && code == GS_OK; i++) {
        gs_edge edge = from->edges.data[i];
        edge.number += (uint32_t)first;
        if (!edge.is_copy)
            code = gs_run_add_edge(to, &to->launches.data[to->launches.count - 1].issue, edge, error);
    }
    return code;
}

/* Appends the launches and exits of a run. */
static gs_code add_events(gs_run *to, const gs_run *from, gs_error *error) {
    size_t first = to->launches.count;
    gs_code code = GS_OK;
    for (size_t i = 0; i < from->events.count && code == GS_OK; i++) {
        const gs_event *event = &from->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_run_copy_launch(to, &from->launches.data[event->launch], error);
        else if (event->op == GS_EXIT && !gs_run_add_event(to, GS_EXIT, first + event->launch, error))
            code = GS_E_MEMORY;
        if (code == GS_OK && event->op == GS_LAUNCH)
            code = add_edges(to, first, from, &from->launches.data[event->launch].issue, error);
    }
    return code;
}

gs_run *gs_run_of_words(const gs_run *read, const gs_words *words, size_t file, gs_error *error) {
    gs_run *run = gs_run_new(error);
    gs_code code = run ? add_kernel_words(run, words, 0, file, error) : GS_E_MEMORY;
    if (code == GS_OK && read) {
        run->has_id = read->has_id;
        run->id = read->id;
        run->gpu = read->gpu ? strdup(read->gpu) : NULL;
        code = gs_green_copy(&run->green_contexts, &read->green_contexts) ? add_events(run, read, error)
                                                                          : gs_fail_memory(error);
    }
    if (code == GS_OK)
        code = add_kernel_words(run, words, file + 1, words->count, error);
    if (code == GS_OK)
        return run;
    gs_run_free(run);
    return NULL;
}
