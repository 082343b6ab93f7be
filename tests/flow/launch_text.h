/*
 * launch_text.h: the launch that a text describes.
 */
#ifndef LAUNCH_TEXT_H
#define LAUNCH_TEXT_H

#include "kernels/cpu/cpu.h"
#include "test.h"

static inline gs_launch_file *launch_of_text(const char *text) {
    gs_error error = {.code = GS_OK};
    gs_input *input = gs_input_memory("launch", text, strlen(text), &error);
    assert_non_null(input);
    gs_launch_file *launch = gs_launch_read(input, &error);
    gs_input_close(input);
    if (!launch)
        fail_msg("%s", error.message);
    return launch;
}

#endif
