/*
 * unscheduled.c: the null model of a program: what streams, events, the host and the pace explain without a scheduler.
 * freed.c has its rule, which is also that of when operations were ready in the recording.
 */
#include "timeline_parts.h"

gs_code gs_timeline_unscheduled(const gs_run *run, const gs_timeline *played, bool follows, gs_timeline *timeline,
                                gs_error *error) {
    gs_code code = gs_timeline_new(run, timeline, error);
    if (code != GS_OK)
        return code;
    timeline->pace = played->pace;
    code = gs_play_unscheduled(run, played, follows, timeline, error);
    if (code != GS_OK)
        gs_timeline_clear(timeline);
    return code;
}
