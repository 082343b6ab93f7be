/* occupancy_view.h: shared by the picture and the page of `occupancy`. */
#ifndef GS_OCCUPANCY_VIEW_H
#define GS_OCCUPANCY_VIEW_H

#include "html.h"

/* The limits of an SM, and how they are drawn. */
enum { GS_CURVE_SLOTS, GS_CURVE_WARPS, GS_CURVE_REGISTERS, GS_CURVE_SHARED, GS_LIMIT_CURVES };

typedef struct gs_limit_curve {
    const char *name, *color, *dash;
} gs_limit_curve;

extern const gs_limit_curve gs_limit_curves[GS_LIMIT_CURVES];

/* How many blocks each limit allows, and how many fit. */
typedef struct gs_curve_limits {
    int32_t by[GS_LIMIT_CURVES], blocks;
} gs_curve_limits;

gs_curve_limits gs_curve_limits_of(const gs_gpu *gpu, const gs_shape *shape);

#endif
