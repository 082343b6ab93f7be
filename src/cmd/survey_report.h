/* survey_report.h: a report of the measurements of a GPU; for probe and adopt. */
#ifndef GS_SURVEY_REPORT_H
#define GS_SURVEY_REPORT_H

#include "lab/calibrate/calibrate.h"

gs_code gs_put_survey(gs_text *text, const gs_survey *survey, gs_error *error);

/* Whether a word can be the name of a description: --gpu takes names and paths, so it must not look like a path. */
bool gs_is_gpu_name(const char *name);

#endif
