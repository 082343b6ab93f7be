/*
 * html.c: self-contained HTML pages, without network or other files; and runs as such a page.
 *
 * A page is a file of src/model/view/html in which the style, the data of each run and the scripts replace three
 * comments. Its Content-Security-Policy forbids loading anything. Names reach it only as data: in base64, or escaped in
 * an attribute.
 */
#include "html.h"

#include <stdlib.h>

/* The scripts, in the order in which they use each other. */
const char *const gs_html_scripts[] = {"data.js",  "cells.js",    "rows.js",   "draw.js", "hover.js",
                                       "panel.js", "overview.js", "export.js", "main.js", NULL};

static void put_file(gs_text *text, const char *name) {
    const gs_embedded_file *file = gs_embedded_find(&gs_html_files, name);
    if (file)
        gs_text_put(text, file->bytes, file->count);
}

/* The part of a page between two of its comments; NULL: its beginning, its end. */
static void put_part(gs_text *text, const char *name, const char *after, const char *before) {
    const gs_embedded_file *page = gs_embedded_find(&gs_html_files, name);
    const char *bytes = page ? page->bytes : "";
    const char *from = after ? strstr(bytes, after) : bytes;
    if (from && after)
        from += strlen(after);
    const char *to = from && before ? strstr(from, before) : NULL;
    if (from)
        gs_text_put(text, from, to ? (size_t)(to - from) : strlen(from));
}

void gs_html_begin(gs_text *text, const char *page) {
    put_part(text, page, NULL, "<!--style-->");
    gs_text_add(text, "<style>\n");
    put_file(text, "style.css");
    gs_text_add(text, "</style>\n");
    put_part(text, page, "<!--style-->", "<!--data-->");
}

void gs_html_end(gs_text *text, const char *page, const char *const *names) {
    put_part(text, page, "<!--data-->", "<!--script-->");
    gs_text_add(text, "<script>\n\"use strict\";\n");
    for (; *names; names++)
        put_file(text, *names);
    gs_text_add(text, "</script>\n");
    put_part(text, page, "<!--script-->", NULL);
}

static void pack_head(gs_pack *pack, const gs_text *head) {
    unsigned char length[4];
    for (int i = 0; i < 4; i++)
        length[i] = (unsigned char)(head->count >> 8 * i);
    gs_pack_add(pack, length, sizeof length);
    gs_pack_add(pack, head->data, head->count);
    gs_pack_align(pack);
}

/* The element of data, which gs_pack_end and an end tag complete. */
static void begin_data(gs_text *text, const char *class_name, const char *title, const gs_text *head, gs_pack *pack) {
    gs_text_add(text, "<script type=\"text/plain\" class=\"%s\" data-title=\"", class_name);
    gs_text_put_xml(text, title);
    gs_text_add(text, "\">");
    gs_pack_begin(pack, text);
    pack_head(pack, head);
}

static void end_data(gs_text *text, gs_pack *pack) {
    gs_pack_end(pack);
    gs_text_add(text, "</script>\n");
}

void gs_html_add_json(gs_text *text, const char *title, const gs_text *json) {
    gs_pack pack;
    begin_data(text, "gridsmith", title, json, &pack);
    end_data(text, &pack);
}

void gs_html_add_report(gs_text *text, const char *summary, const gs_text *report, bool is_open) {
    gs_pack pack;
    gs_text json = {0};
    gs_writer writer = gs_writer_to(&json);
    gs_write_object(&writer, NULL);
    gs_write_string(&writer, "summary", summary);
    gs_write_string(&writer, "text", report->data ? report->data : "");
    gs_write_bool(&writer, "open", is_open);
    gs_write_array(&writer, "arrays");
    gs_write_finish(&writer);
    begin_data(text, "gridsmith-report", summary, &json, &pack);
    end_data(text, &pack);
    text->failed = text->failed || json.failed;
    gs_text_free(&json);
}

static void pack_columns(gs_pack *pack, const gs_scene *scene, const gs_column *columns, size_t count) {
    for (size_t i = 0; i < count; i++)
        gs_pack_column(pack, scene, &columns[i]);
}

/* The arrays of blocks, which the page reads after it has drawn the rest. */
static void add_blocks(gs_text *text, const gs_scene *scene, const gs_column *columns, size_t count) {
    gs_text head = {0};
    gs_writer writer = gs_writer_to(&head);
    gs_pack pack;
    gs_write_object(&writer, NULL);
    gs_write_columns(&writer, columns, count);
    gs_write_finish(&writer);
    begin_data(text, "gridsmith-blocks", "", &head, &pack);
    pack_columns(&pack, scene, columns, count);
    end_data(text, &pack);
    text->failed = text->failed || head.failed;
    gs_text_free(&head);
}

gs_code gs_html_add_scene(gs_text *text, const gs_scene *scene, const char *title, gs_error *error) {
    gs_column columns[GS_MOST_COLUMNS];
    size_t others, count = gs_columns_of(scene, columns, &others);
    gs_text head = {0};
    gs_writer writer = gs_writer_to(&head);
    gs_pack pack;
    gs_write_document(&writer, "gridsmith.view/1");
    gs_write_head(&writer, scene, title);
    gs_write_columns(&writer, columns, others);
    gs_write_finish(&writer);
    begin_data(text, "gridsmith", title, &head, &pack);
    pack_columns(&pack, scene, columns, others);
    end_data(text, &pack);
    add_blocks(text, scene, columns + others, count - others);
    bool failed = head.failed || text->failed;
    gs_text_free(&head);
    return failed ? gs_fail_memory(error) : GS_OK;
}

/* ---- the format ---- */

/* "app.jsonl: NVIDIA H200, run 4, plain". */
static void put_title(gs_text *text, const gs_view *view, const gs_gpu *gpu, const gs_run *run) {
    const char *slash = view->file ? strrchr(view->file, '/') : NULL;
    if (view->file && strcmp(view->file, "-") != 0)
        gs_text_add(text, "%.100s: ", slash ? slash + 1 : view->file);
    gs_text_add(text, "%.100s", gpu->title ? gpu->title : gpu->name);
    if (run->has_id)
        gs_text_add(text, ", run %lld", (long long)run->id);
    else if (view->number > 1)
        gs_text_add(text, ", run %zu", view->number);
    if (run->class_name)
        gs_text_add(text, ", %.100s", run->class_name);
    if (run->origin.program)
        gs_text_add(text, ", %.200s", run->origin.program);
    if (gpu->assumed)
        gs_text_add(text, "; %.200s", gpu->assumed);
}

static gs_code html_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    gs_scene scene;
    gs_scene_source source = {
        .gpu = gpu, .run = run, .measured = view->measured, .played = view->played, .names = view->names};
    gs_text title = {0};
    put_title(&title, view, gpu, run);
    if (view->report && view->report->count)
        gs_html_add_report(&view->text, view->report_title ? view->report_title : "report", view->report,
                           view->report_title);
    gs_code code = title.failed ? gs_fail_memory(error) : gs_scene_make(&scene, &source, error);
    if (code == GS_OK) {
        code = gs_html_add_scene(&view->text, &scene, title.data, error);
        gs_scene_clear(&scene);
    }
    gs_text_free(&title);
    return code;
}

static void html_begin(gs_view *view) {
    gs_html_begin(&view->text, "page.html");
}

static void html_end(gs_view *view) {
    gs_html_end(&view->text, "page.html", gs_html_scripts);
}

const gs_format gs_format_html = {.name = "html",
                                  .help = "a page to look at in a browser",
                                  .wants_played = true,
                                  .begin = html_begin,
                                  .run = html_run,
                                  .end = html_end};

/* ---- campaigns ---- */

gs_code gs_campaign_page_add(gs_campaign_page *page, const gs_gpu *gpu, const gs_run *recorded, const gs_run *predicted,
                             gs_error *error) {
    gs_view view = {.text = page->scenes, .number = page->runs + 1, .measured = recorded};
    if (page->runs >= page->most) {
        page->left_out++;
        return GS_OK;
    }
    page->runs++;
    gs_code code = html_run(&view, gpu, predicted, error);
    page->scenes = view.text;
    return code;
}

void gs_put_campaign_page(gs_text *text, const gs_campaign_page *page, const gs_text *report) {
    gs_text words = {0};
    gs_text_add(&words, "%s%zu run%s in this page", report->data ? report->data : "", page->runs,
                page->runs == 1 ? " is" : "s are");
    if (page->left_out)
        gs_text_add(&words, ", and %zu more are left out", page->left_out);
    gs_text_add(&words, "\n");
    gs_html_begin(text, "page.html");
    gs_html_add_report(text, "scores", &words, false);
    gs_text_put(text, page->scenes.data ? page->scenes.data : "", page->scenes.count);
    gs_html_end(text, "page.html", gs_html_scripts);
    text->failed = text->failed || words.failed || page->scenes.failed;
    gs_text_free(&words);
}
