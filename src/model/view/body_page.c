/*
 * body_page.c: the bound of a compiled kernel as a page: what it consists of, by source line, and what would lower it.
 * A bar is a share of the whole bound. Lines of PTX have their text beside them.
 */
#include "html.h"
#include "view.h"

#include <inttypes.h>

enum { MOST_LINE_TEXT = 120, BAR_PIXELS = 140 };

static void begin_row(gs_text *text, const char *what) {
    gs_text_add(text, "<tr><td>");
    gs_text_put_xml(text, what);
}

/* A number, and how large it is compared with all. */
static void put_share(gs_text *text, int64_t cycles, int64_t all) {
    double share = all > 0 && cycles > 0 ? 100.0 * (double)cycles / (double)all : 0;
    gs_text_add(text, "<td class=\"number\">%" PRId64 "<td class=\"share\"><i style=\"width:%.0fpx\"></i> %.1f%%",
                cycles, BAR_PIXELS * (share > 100 ? 1 : share / 100), share);
}

static void put_term(gs_text *text, const char *what, int64_t cycles, int64_t all) {
    if (!cycles)
        return;
    begin_row(text, what);
    put_share(text, cycles, all);
    gs_text_add(text, "\n");
}

static void put_terms(gs_text *text, const gs_body_answer *answer) {
    const gs_body_bound *bound = &answer->bound;
    char words[100];
    gs_text_add(text, "<h3>What it consists of</h3>\n<table>\n<tr><th>part<th class=\"number\">cycles<th>share\n");
    put_term(text,
             bound->chain_blocks == 1 ? "the longest path of a warp" : "the longest paths of warps, block by block",
             bound->chain_blocks * bound->path_cycles, bound->cycles);
    put_term(text, "accesses that take longer than most", bound->burst_cycles, bound->cycles);
    put_term(text, "starting and ending blocks", bound->block_cycles, bound->cycles);
    put_term(text, "other warps of the partition go first", bound->issue_cycles, bound->cycles);
    for (size_t i = 0; i < answer->machine->units.count; i++) {
        snprintf(words, sizeof words, "waiting for %.60s", answer->machine->units.data[i].name);
        put_term(text, words, bound->unit_cycles[i], bound->cycles);
    }
    put_term(text, "fetching instructions", bound->fetch_cycles, bound->cycles);
    gs_text_add(text, "</table>\n");
}

/* A line of the source, without blanks around it. */
static void put_line_text(gs_text *text, const char *source, uint32_t line) {
    const char *at = source;
    char copy[MOST_LINE_TEXT + 1];
    for (uint32_t i = 1; at && i < line; i++)
        at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    if (!at || !line)
        return;
    at += strspn(at, " \t");
    size_t length = strcspn(at, "\r\n");
    snprintf(copy, sizeof copy, "%.*s", (int)(length < MOST_LINE_TEXT ? length : MOST_LINE_TEXT), at);
    for (char *tab = copy; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    gs_text_put_xml(text, copy);
}

static void put_rows(gs_text *text, const gs_body_answer *answer) {
    gs_text_add(text,
                "<h3>By line</h3>\n<p>How much lower the bound would be without the instructions of a line; the lines "
                "of ");
    gs_text_put_xml(text, answer->body->file ? answer->body->file : answer->source ? "the PTX" : "the code");
    gs_text_add(text,
                ".</p>\n<table>\n<tr><th>place<th class=\"number\">instructions of a warp<th class=\"number\">cycles "
                "less<th>share<th>text\n");
    for (size_t i = 0; i < answer->shares.rows.count; i++) {
        const gs_body_row *row = &answer->shares.rows.data[i];
        gs_text_add(text, "<tr><td>");
        gs_put_body_place(text, row->line, row->offset);
        gs_text_add(text, "<td class=\"number\">%" PRId64, row->instructions);
        if (row->saved_cycles == GS_NOT_KNOWN)
            gs_text_add(text, "<td><td>");
        else
            put_share(text, row->saved_cycles, answer->bound.cycles);
        gs_text_add(text, "<td><code>");
        put_line_text(text, answer->source, row->line);
        gs_text_add(text, "</code>\n");
    }
    gs_text_add(text, "</table>\n");
}

static void put_reliefs(gs_text *text, const gs_body_answer *answer) {
    if (!answer->shares.reliefs.count)
        return;
    gs_text_add(text, "<h3>What would lower it</h3>\n<ul>\n");
    for (size_t i = 0; i < answer->shares.reliefs.count; i++) {
        const gs_body_part *part = &answer->body->parts.data[answer->shares.reliefs.data[i].part];
        gs_text_add(text, "<li>");
        gs_put_body_place(text, part->line, part->offset);
        gs_text_add(text, ": %" PRId64 " cycles less %s\n", answer->shares.reliefs.data[i].saved_cycles,
                    part->kind == GS_PART_LOOP ? "for each round less of the loop"
                                               : "if all threads of a warp went the same way");
    }
    gs_text_add(text, "</ul>\n");
}

void gs_put_body_bound_html(gs_text *text, const gs_body_answer *answer) {
    static const char *const no_scripts[] = {NULL};
    gs_html_begin(text, "picture.html");
    gs_text_add(text, "<h2>");
    gs_text_put_xml(text, answer->body->kernel);
    gs_text_add(text, "</h2>\n<p>%" PRId64 " blocks of %" PRId32 " threads on ", answer->blocks, answer->shape.threads);
    gs_text_put_xml(text, answer->gpu->name);
    gs_text_add(text,
                ". From the launch to its end at most <b>%.3f us</b>, %.3f us beside other programs: %.3f us (%" PRId64
                " cycles) from the begin of its first block, and %.3f us for a launch, as measured.</p>\n",
                (double)answer->bound.nanoseconds / 1e3, (double)answer->beside.nanoseconds / 1e3,
                (double)gs_body_kernel_ns(&answer->bound) / 1e3, answer->bound.cycles,
                (double)answer->bound.launch_ns / 1e3);
    if (answer->is_for_input)
        gs_text_add(text, "<p>This is for one input: rounds, transactions, and the code that is reached, are those of "
                          "a run on the CPU.</p>\n");
    put_terms(text, answer);
    put_rows(text, answer);
    put_reliefs(text, answer);
    gs_text_add(text, "<p>Latencies: ");
    gs_text_put_xml(text, answer->machine->found);
    gs_text_add(text, "</p>\n");
    gs_html_end(text, "picture.html", no_scripts);
}
