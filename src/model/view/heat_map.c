/*
 * heat_map.c: a matrix of numbers as a picture: a square for any two names, greener for larger numbers.
 */
#include "view.h"

#include <math.h>

enum { LEFT = 150, TOP = 60, BOTTOM = 150, CELL = 46, MARGIN = 20, NAME = 20 };

/* From white to green; gray if the number is not known. */
static void put_fill(gs_text *text, double value, double most) {
    double part = most > 0 ? fmin(1, fmax(0, value / most)) : 0;
    if (!isfinite(value))
        gs_text_add(text, "#eee");
    else
        gs_text_add(text, "#%02x%02x%02x", (unsigned)(255 - 211 * part), (unsigned)(255 - 95 * part),
                    (unsigned)(255 - 211 * part));
}

static void put_name(gs_text *text, const char *name) {
    char cut[NAME + 3];
    size_t length = strlen(name);
    if (length > NAME)
        for (length = NAME; length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80;)
            length--;
    snprintf(cut, sizeof cut, "%.*s%s", (int)length, name, name[length] ? ".." : "");
    gs_text_put_xml(text, cut);
}

static void put_cell(gs_text *text, const gs_heat_map *map, size_t row, size_t column, double most) {
    const gs_heat_cell *cell = &map->cells[row * map->count + column];
    double x = LEFT + (double)column * CELL, y = TOP + (double)row * CELL;
    gs_text_add(text, "<g><title>");
    gs_text_put_xml(text, map->names[row]);
    gs_text_add(text, " + ");
    gs_text_put_xml(text, map->names[column]);
    gs_text_add(text, ": ");
    gs_text_put_xml(text, cell->words ? cell->words : "");
    gs_text_add(text, "</title><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" stroke=\"#fff\" fill=\"", x, y,
                CELL, CELL);
    put_fill(text, cell->percent, most);
    gs_text_add(text, "\"/>");
    if (isfinite(cell->percent))
        gs_text_add(text, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%.1f</text>", x + CELL / 2.0,
                    y + CELL / 2.0 + 4, cell->percent);
    gs_text_add(text, "</g>\n");
}

static void put_names(gs_text *text, const gs_heat_map *map) {
    double bottom = TOP + (double)map->count * CELL;
    for (size_t i = 0; i < map->count; i++) {
        double middle = (double)i * CELL + CELL / 2.0;
        gs_text_add(text, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">", LEFT - 6, TOP + middle + 4);
        put_name(text, map->names[i]);
        gs_text_add(text, "</text>\n<text transform=\"translate(%.0f %.0f) rotate(-60)\" text-anchor=\"end\">",
                    LEFT + middle + 4, bottom + 12);
        put_name(text, map->names[i]);
        gs_text_add(text, "</text>\n");
    }
}

void gs_put_heat_map(gs_text *text, const gs_heat_map *map) {
    int width = LEFT + (int)map->count * CELL + MARGIN, height = TOP + (int)map->count * CELL + BOTTOM;
    double most = 0;
    width = width < 420 ? 420 : width;
    gs_put_svg_begin(text, width, height, 11);
    gs_text_add(text, "<text x=\"8\" y=\"18\" font-size=\"14\">");
    gs_text_put_xml(text, map->title);
    gs_text_add(text, "</text>\n<text x=\"8\" y=\"34\" fill=\"#555\">");
    gs_text_put_xml(text, map->summary);
    gs_text_add(text, "</text>\n");
    for (size_t i = 0; i < map->count * map->count; i++)
        most = isfinite(map->cells[i].percent) ? fmax(most, map->cells[i].percent) : most;
    for (size_t row = 0; row < map->count; row++)
        for (size_t column = 0; column < map->count; column++)
            if (row != column)
                put_cell(text, map, row, column, most);
    put_names(text, map);
    gs_text_add(text, "</svg>\n");
}
