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

/* The columns of the table: the class; then for runs, launches and blocks how many there are, and how many are exact.
 */
enum { KINDS = 3, PERCENT = 7 };

struct widths {
    int class, all[KINDS], exact[KINDS];
};

static void list_pairs(const gs_score *score, int64_t pairs[KINDS][2]) {
    const int64_t list[KINDS][2] = {{score->runs, score->runs_exact},
                                    {score->launches, score->launches_exact},
                                    {score->blocks, score->blocks_exact}};
    memcpy(pairs, list, sizeof list);
}

static const char *const headings[KINDS] = {"runs", "launches", "blocks"};

/* Long names of classes are shortened where the terminal is narrow. */
static struct widths find_widths(const gs_text *text, const gs_scores *scores, const gs_score *total) {
    enum { LEAST_CLASS = 12, MOST_CLASS = 40 };
    int64_t pairs[KINDS][2], widest = 6;
    struct widths widths = {0};
    int rest = 0;
    list_pairs(total, pairs);
    for (int i = 0; i < KINDS; i++) {
        widths.all[i] = (int)gs_max(snprintf(NULL, 0, "%lld", (long long)pairs[i][0]), (int64_t)strlen(headings[i]));
        widths.exact[i] = (int)gs_max(snprintf(NULL, 0, "%lld", (long long)pairs[i][1]), 5);
        rest += 2 + widths.all[i] + 1 + widths.exact[i] + PERCENT;
    }
    for (size_t i = 0; i < scores->count; i++)
        widest = gs_max(widest, (int64_t)strlen(name_of(&scores->data[i])));
    widths.class = (int)gs_min(widest, text->columns ? gs_max(text->columns - rest, LEAST_CLASS) : MOST_CLASS);
    return widths;
}

static void put_row(gs_text *text, const struct widths *widths, const char *name, const gs_score *score) {
    int64_t pairs[KINDS][2];
    list_pairs(score, pairs);
    gs_text_add(text, "%-*.*s", widths->class, widths->class, name);
    for (size_t i = 0; i < KINDS; i++) {
        gs_text_add(text, "  %*lld %*lld ", widths->all[i], (long long)pairs[i][0], widths->exact[i],
                    (long long)pairs[i][1]);
        gs_text_style(text, pairs[i][1] == pairs[i][0] ? GS_STYLE_GOOD : GS_STYLE_BAD);
        put_exact_percent(text, pairs[i][1], score->launches ? pairs[i][0] : 0);
        gs_text_style(text, GS_STYLE_PLAIN);
    }
    gs_text_put(text, "\n", 1);
}

static void put_heading(gs_text *text, const struct widths *widths) {
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "%-*s", widths->class, "class");
    for (size_t i = 0; i < KINDS; i++)
        gs_text_add(text, "  %*s %*s%*s", widths->all[i], headings[i], widths->exact[i], "exact",
                    i + 1 < KINDS ? PERCENT : 0, "");
    gs_text_put(text, "\n", 1);
    gs_text_style(text, GS_STYLE_PLAIN);
}

void gs_put_scores(gs_text *text, const gs_scores *scores) {
    gs_score total = gs_scores_total(scores);
    struct widths widths = find_widths(text, scores, &total);
    put_heading(text, &widths);
    for (size_t i = 0; i < scores->count; i++)
        put_row(text, &widths, name_of(&scores->data[i]), &scores->data[i].score);
    if (scores->count > 1)
        put_row(text, &widths, "all", &total);
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
