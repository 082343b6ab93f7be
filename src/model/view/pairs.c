/*
 * pairs.c: which features runs have, and which pairs of them were in one run.
 *
 * A rule is often wrong only where two features meet: a graph beside a cooperative launch, a cluster that waits. So a
 * set of runs is judged by the pairs that it has. The table has a row and a column for each feature; a field is the
 * number of runs with both, and on the diagonal the number of runs with the feature.
 */
#include "view.h"

#include <string.h>

static const char *const names[GS_FEATURES] = {
    [GS_HAS_GRAPH] = "graph",        [GS_HAS_TRIGGER] = "programmatic",     [GS_HAS_NORMAL] = "normal in stream",
    [GS_HAS_WHOLE] = "cooperative",  [GS_HAS_CLUSTER] = "cluster",          [GS_HAS_GREEN] = "green context",
    [GS_HAS_MEMORY] = "memory node", [GS_HAS_PRIORITY] = "priority",        [GS_HAS_CARVEOUT] = "carve-out",
    [GS_HAS_SHARED] = "shared",      [GS_HAS_PART_WARP] = "part of a warp", [GS_HAS_EXIT] = "exit",
    [GS_HAS_TIMES] = "times",        [GS_HAS_WAIT] = "waits for room"};

/* When it may start after the first launch that it has an entry for. */
static gs_when first_when(const gs_run *run, const gs_issue *issue) {
    return issue->after_count ? (gs_when)run->edges.data[issue->after].when : GS_AT_END;
}

static uint32_t features_of_launch(const gs_run *run, size_t number) {
    const gs_launch *launch = &run->launches.data[number];
    const gs_issue *issue = &launch->issue;
    const gs_seen *seen = run->events.data[launch->event].seen;
    bool is_programmatic = first_when(run, issue) != GS_AT_END;
    const bool has[GS_FEATURES] = {
        [GS_HAS_GRAPH] = gs_issue_is_node(issue),
        [GS_HAS_TRIGGER] = is_programmatic,
        [GS_HAS_NORMAL] = launch->stream && issue->after_count && !is_programmatic,
        [GS_HAS_WHOLE] = issue->facts && issue->facts->is_cooperative,
        [GS_HAS_CLUSTER] = launch->cluster > 1,
        [GS_HAS_GREEN] = run->green_contexts.count && issue->facts && issue->facts->green_context >= 0,
        [GS_HAS_PRIORITY] = launch->priority,
        [GS_HAS_CARVEOUT] = launch->shape.carveout_percent != GS_NO_CARVEOUT,
        [GS_HAS_SHARED] = launch->shape.shared_bytes,
        [GS_HAS_PART_WARP] = launch->shape.threads % 32,
        [GS_HAS_EXIT] = launch->exit != SIZE_MAX,
        [GS_HAS_TIMES] = launch->duration_ns,
        [GS_HAS_WAIT] = seen && gs_seen_started(seen) < launch->blocks && !gs_run_is_held(run, number)};
    uint32_t features = 0;
    for (int i = 0; i < GS_FEATURES; i++)
        features |= (uint32_t)has[i] << i;
    return features;
}

void gs_pairs_add(gs_pairs *pairs, const gs_run *run) {
    uint32_t features = run->copies.count ? 1u << GS_HAS_MEMORY : 0;
    for (size_t i = 0; i < run->launches.count; i++)
        features |= features_of_launch(run, i);
    for (int i = 0; i < GS_FEATURES; i++)
        for (int j = 0; j < GS_FEATURES; j++)
            pairs->runs[i][j] += (features >> i & 1) && (features >> j & 1);
}

void gs_put_pairs(gs_text *text, const gs_pairs *pairs) {
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "%-2s %-17s", "", "runs with both");
    for (int i = 0; i < GS_FEATURES; i++)
        gs_text_add(text, "%7d", i + 1);
    gs_text_style(text, GS_STYLE_PLAIN);
    for (int i = 0; i < GS_FEATURES; i++) {
        gs_text_add(text, "\n%2d %-17s", i + 1, names[i]);
        for (int j = 0; j <= i; j++)
            gs_text_add(text, "%7lld", (long long)pairs->runs[i][j]);
    }
    gs_text_add(text, "\n");
}
