/*
 * style.c: colors on terminals: headings are bold, good results green, bad ones red, remarks faint.
 *
 * The colors are those of the terminal's own palette, so they fit light and dark terminals. Words say the same, for
 * terminals without colors.
 */
#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_colors(FILE *stream) {
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(off && *off) && terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(stream));
}

const char *gs_style_code(FILE *stream, gs_style style) {
    static const char *const codes[] = {[GS_STYLE_PLAIN] = "\033[0m",
                                        [GS_STYLE_HEADING] = "\033[1m",
                                        [GS_STYLE_GOOD] = "\033[32m",
                                        [GS_STYLE_BAD] = "\033[31m",
                                        [GS_STYLE_NOTE] = "\033[2m"};
    return has_colors(stream) ? codes[style] : "";
}

void gs_text_style(gs_text *text, gs_style style) {
    const char *code = text->sink ? gs_style_code(text->sink, style) : "";
    gs_text_put(text, code, strlen(code));
}
