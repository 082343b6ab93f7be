/*
 * hang_words.c: what rules say of a kernel, and whether it waits. See hang_rules.h.
 */
#include "hang_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

void gs_hang_add_fix(gs_hang *hang, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *kept = strdup(text);
    if (!kept || !GS_PUSH(&hang->fixes, kept))
        free(kept);
}

void gs_hang_put_kernel(gs_text *text, const gs_hang_kernel *kernel) {
    gs_text_add(text, "%s (", kernel->name);
    gs_text_put_grouped(text, kernel->blocks);
    gs_text_add(text, " block%s of %" PRId64 " threads, stream %u)", kernel->blocks == 1 ? "" : "s", kernel->threads,
                kernel->stream_number);
}

/* "264 of its blocks are resident and wait at hang.cu:7 for `arrived`" */
void gs_hang_put_places(gs_hang *hang, const gs_hang_kernel *kernel) {
    static const char *const doing[] = {"run",
                                        "wait at a barrier",
                                        "wait at a barrier of their cluster",
                                        "wait for the kernel before",
                                        "wait at a barrier in shared memory",
                                        "wait for memory",
                                        "are in a loop without an end"};
    gs_text *text = &hang->said;
    int said = 0;
    if (kernel->grid == GS_DUMP_NONE)
        return;
    for (size_t i = 0; i < hang->places.count && said < 3; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (place->grid != kernel->grid)
            continue;
        gs_text_add(text, "%s%zu warp%s %s", said++ ? ", " : ": ", place->warps, place->warps == 1 ? "" : "s",
                    place->in_syscall ? "are in a function of the driver, such as malloc" : doing[place->wait.kind]);
        if (place->variable)
            gs_text_add(text, " (%s)", place->variable);
        else if (place->address)
            gs_text_add(text, " (0x%" PRIx64 ")", place->address);
        if (place->source)
            gs_text_add(text, " at %s:%u", place->source, place->line);
        else if (place->function)
            gs_text_add(text, " at %s+0x%" PRIx64, place->function, place->offset);
    }
}

/* "waits for memory": the most that the code of a kernel can do. */
const char *gs_hang_code_words(const gs_hang_kernel *kernel) {
    static const struct {
        unsigned code;
        const char *words;
    } table[] = {
        {GS_SASS_CODE_WAITS, "waits for memory"},
        {GS_SASS_CODE_POLLS_SHARED, "waits for shared memory, or for a barrier there"},
        {GS_SASS_CODE_READS, "reads in a loop what others may write"},
        {GS_SASS_CODE_ENDLESS, "has a loop without an exit"},
        {GS_SASS_CODE_AT_BARRIERS, "waits at barriers"},
        {GS_SASS_CODE_CALLS, "calls functions that are not looked at"},
    };
    for (size_t i = 0; i < GS_COUNT(table); i++)
        if (kernel->code & table[i].code)
            return table[i].words;
    return kernel->code ? "waits for nothing" : "is not known";
}

/* ---- what kernels do ---- */

/* Whether its blocks are seen to wait, or its code can. */
bool gs_hang_kernel_waits(const gs_hang *hang, const gs_hang_kernel *kernel) {
    bool waits = false;
    if (!hang->has_dump)
        return kernel->code & GS_SASS_CODE_WAITS;
    for (size_t i = 0; i < hang->places.count && kernel->grid != GS_DUMP_NONE; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (place->grid == kernel->grid && (place->wait.kind == GS_SASS_RUNS || place->wait.kind == GS_SASS_ENDLESS))
            return false;
        waits = waits || place->grid == kernel->grid;
    }
    return waits;
}

gs_hang_kernel *gs_hang_first_waiting(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        bool is_there = hang->has_dump ? kernel->grid != GS_DUMP_NONE : kernel->is_head;
        if (is_there && gs_hang_kernel_waits(hang, kernel))
            return kernel;
    }
    return NULL;
}

/* Whether a kernel may run, and not only wait, for as long as this. */
static bool may_run_long(const gs_hang *hang, const gs_hang_kernel *kernel) {
    bool may_loop = !kernel->code || kernel->code & (GS_SASS_CODE_LOOPS | GS_SASS_CODE_CALLS);
    return kernel->is_head && !gs_hang_kernel_waits(hang, kernel) && may_loop;
}

bool gs_hang_may_be_released(const gs_hang *hang, const gs_hang_kernel *kernel, const gs_hang_kernel *without_room) {
    enum { WARP = 32 };
    if (hang->has_dump)
        return false;
    bool has_others = kernel->blocks > 1 || kernel->threads > WARP;
    if (kernel->operation->collective || (kernel->code & GS_SASS_CODE_TELLS && has_others) || hang->host_may_act)
        return true;
    for (size_t i = 0; i < hang->kernels.count; i++)
        if (&hang->kernels.data[i] != kernel && &hang->kernels.data[i] != without_room &&
            may_run_long(hang, &hang->kernels.data[i]))
            return true;
    return false;
}
