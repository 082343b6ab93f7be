/*
 * html.h: HTML pages: compressed data (pack.c), the arrays of a scene (columns.c), its other facts as JSON (head.c),
 * and the page around them (html.c).
 *
 * The data of a scene is a deflate stream in base64, in a script element of a type that browsers do not execute. It
 * holds, in this order: the length of the JSON (4 bytes, little-endian), the JSON, zeros up to a multiple of 8 bytes,
 * and the arrays that the JSON lists, each with zeros up to a multiple of 8 bytes. src/model/view/html/data.js reads
 * it. The arrays of blocks follow in an element of their own, so that a page can draw the rest first.
 */
#ifndef GS_HTML_H
#define GS_HTML_H

#include "scene.h"

#include <zlib.h>

/* ---- the files of src/model/view/html, compiled in ---- */

extern const gs_embedded_files gs_html_files;

/* ---- packing ---- */

typedef struct gs_pack {
    gs_text *text; /* gets the base64 */
    z_stream stream;
    bool failed;
    size_t bytes; /* packed so far */
    unsigned char left[3];
    size_t left_count;
} gs_pack;

void gs_pack_begin(gs_pack *pack, gs_text *text);
void gs_pack_add(gs_pack *pack, const void *bytes, size_t count);
void gs_pack_align(gs_pack *pack); /* zeros up to a multiple of 8 */
/* Ends the stream. A failure shows in the text. */
void gs_pack_end(gs_pack *pack);

/* ---- the arrays of a scene ---- */

typedef enum gs_column_type {
    GS_COLUMN_U8,
    GS_COLUMN_U16,
    GS_COLUMN_U32,
    GS_COLUMN_DELTA,
    GS_COLUMN_F64
} gs_column_type;

/* An array. DELTA: differences from the value before, as 32 bits with the sign lowest; all their lowest bytes come
   first, then all their second bytes and so on. In F64, GS_NO_TIME is NaN. */
typedef struct gs_column {
    const char *name;
    gs_column_type type;
    size_t count;
    int64_t (*value)(const gs_scene *scene, int layer, size_t number);
    int layer;
} gs_column;

enum { GS_MOST_COLUMNS = 48 };

/* Lists the arrays of a scene. Returns how many. The first `*others` are not of blocks. */
size_t gs_columns_of(const gs_scene *scene, gs_column *columns, size_t *others);
void gs_pack_column(gs_pack *pack, const gs_scene *scene, const gs_column *column);

/* Writes a table of arrays into the JSON. */
void gs_write_columns(gs_writer *writer, const gs_column *columns, size_t count);

/* ---- the rest of a scene ---- */

/* Writes the part of a scene that is not in arrays into the JSON. */
void gs_write_head(gs_writer *writer, const gs_scene *scene, const char *title);

/* ---- pages ---- */

/* The scripts of page.html, ending in NULL. */
extern const char *const gs_html_scripts[];

/* The page up to its data, and after it. */
void gs_html_begin(gs_text *text, const char *page);
void gs_html_end(gs_text *text, const char *page, const char *const *scripts); /* scripts: names, ending in NULL */

/* Data that is only JSON, with an empty list of "arrays". */
void gs_html_add_json(gs_text *text, const char *title, const gs_text *json);

/* A text for people, which the page shows when asked. */
void gs_html_add_report(gs_text *text, const char *summary, const gs_text *report, bool is_open);

/* The data of a scene. `title`: in the list of scenes. */
gs_code gs_html_add_scene(gs_text *text, const gs_scene *scene, const char *title, gs_error *error);

#endif
