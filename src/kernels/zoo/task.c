/*
 * task.c: tasks: launches of kernels, each of which may wait for earlier ones; and the tracks on which they run.
 *
 * Tracks are streams (cuda.h). A step runs on the track of a step that it waits for, if it is the first behind it;
 * otherwise on a free track, and if there is none, behind the track that was used longest ago. So what waits for
 * nothing may overlap, and a chain has one track. Where a step waits for steps of other tracks, its track waits for all
 * that these have started.
 */
#include "play.h"

#include <stdlib.h>

bool gs_zoo_task_add(gs_zoo_task *task, const gs_zoo_kernel *kernel, const gs_zoo_size *size) {
    if (!GS_RESERVE(&task->steps, 1))
        return false;
    task->steps.data[task->steps.count++] = (gs_zoo_step){.kernel = kernel, .size = *size, .after = task->after.count};
    return true;
}

bool gs_zoo_task_wait(gs_zoo_task *task, size_t before) {
    if (!GS_RESERVE(&task->after, 1))
        return false;
    task->after.data[task->after.count++] = before;
    task->steps.data[task->steps.count - 1].after_count++;
    return true;
}

void gs_zoo_task_free(gs_zoo_task *task) {
    free(task->name);
    free(task->steps.data);
    free(task->after.data);
    *task = (gs_zoo_task){.name = NULL};
}

/* ---- tracks ---- */

/* Steps are counted from 1 here; 0: none. */
struct tracks {
    const gs_zoo_task *task;
    gs_zoo_place *places;
    size_t last[GS_APP_TRACKS];                /* of each track */
    size_t seen[GS_APP_TRACKS][GS_APP_TRACKS]; /* the last one of another track that a track has waited for */
};

static uint32_t choose_track(const struct tracks *tracks, const gs_zoo_step *step) {
    uint32_t oldest = 0;
    for (size_t i = 0; i < step->after_count; i++) {
        size_t before = tracks->task->after.data[step->after + i];
        if (tracks->last[tracks->places[before].track] == before + 1)
            return tracks->places[before].track;
    }
    for (uint32_t i = 0; i < GS_APP_TRACKS; i++)
        oldest = tracks->last[i] < tracks->last[oldest] ? i : oldest;
    return oldest;
}

uint32_t gs_zoo_task_place(const gs_zoo_task *task, gs_zoo_place *places) {
    struct tracks tracks = {.task = task, .places = places};
    uint32_t used = 0;
    for (size_t i = 0; i < task->steps.count; i++) {
        const gs_zoo_step *step = &task->steps.data[i];
        uint32_t track = choose_track(&tracks, step);
        places[i].track = track;
        places[i].waits = 0;
        for (size_t k = 0; k < step->after_count; k++) {
            size_t before = task->after.data[step->after + k];
            uint32_t other = places[before].track;
            if (other == track || tracks.seen[track][other] > before)
                continue;
            places[i].waits |= 1u << other;
            tracks.seen[track][other] = tracks.last[other];
        }
        tracks.last[track] = i + 1;
        used = (uint32_t)gs_max(used, track + 1);
    }
    return used;
}
