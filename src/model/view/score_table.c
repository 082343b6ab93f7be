/*
 * score_table.c: scores by class, as a table and as gridsmith.score/1.
 */
#include "view.h"

#include <math.h>
#include <string.h>

static const char *name_of(const gs_class_score *class) {
    return class->class_name[0] ? class->class_name : "(none)";
}

/* Rounded down: 100 percent only if all are exact. Of nothing there is no percentage. */
static void put_exact_percent(gs_text *text, int64_t exact, int64_t all) {
    if (all)
        gs_text_add(text, "%5.1f%%", floor(1000.0 * (double)exact / (double)all) / 10);
    else
        gs_text_add(text, "%6s", "-");
}

static void put_row(gs_text *text, int width, const char *name, const gs_score *score) {
    const int64_t pairs[][2] = {{score->runs, score->runs_exact},
                                {score->launches, score->launches_exact},
                                {score->blocks, score->blocks_exact}};
    gs_text_add(text, "%-*.*s", width, width, name);
    for (size_t i = 0; i < GS_COUNT(pairs); i++) {
        gs_text_add(text, "  %9lld %9lld ", (long long)pairs[i][0], (long long)pairs[i][1]);
        gs_text_style(text, pairs[i][1] == pairs[i][0] ? GS_STYLE_GOOD : GS_STYLE_BAD);
        put_exact_percent(text, pairs[i][1], score->launches ? pairs[i][0] : 0);
        gs_text_style(text, GS_STYLE_PLAIN);
    }
    gs_text_put(text, "\n", 1);
}

void gs_put_scores(gs_text *text, const gs_scores *scores) {
    size_t widest = 6;
    for (size_t i = 0; i < scores->count; i++)
        widest = gs_max_u64(widest, strlen(name_of(&scores->data[i])));
    int width = (int)gs_min_u64(widest, 40);
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "%-*s  %9s %9s         %9s %9s         %9s %9s\n", width, "class", "runs", "exact", "launches",
                "exact", "blocks", "exact");
    gs_text_style(text, GS_STYLE_PLAIN);
    for (size_t i = 0; i < scores->count; i++)
        put_row(text, width, name_of(&scores->data[i]), &scores->data[i].score);
    gs_score total = gs_scores_total(scores);
    if (scores->count > 1)
        put_row(text, width, "all", &total);
    if (!total.launches)
        gs_text_add(text, "no launch was scored: nothing to compare\n");
}

static void write_score(gs_writer *writer, const char *class_name, const gs_score *score) {
    gs_write_object(writer, class_name);
    gs_write_int(writer, "runs", score->runs);
    gs_write_int(writer, "runs_exact", score->runs_exact);
    gs_write_int(writer, "launches", score->launches);
    gs_write_int(writer, "launches_exact", score->launches_exact);
    gs_write_int(writer, "blocks", score->blocks);
    gs_write_int(writer, "blocks_exact", score->blocks_exact);
    gs_write_end(writer);
}

void gs_put_scores_json(gs_writer *writer, const gs_scores *scores) {
    gs_write_object(writer, "classes");
    for (size_t i = 0; i < scores->count; i++)
        write_score(writer, scores->data[i].class_name, &scores->data[i].score);
    gs_write_end(writer);
}
