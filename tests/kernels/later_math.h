/* later_math.h: every math function of CUDA, declared as the <math.h> of a C library may declare it. */
#ifndef LATER_MATH_H
#define LATER_MATH_H

#include <time.h>

#define LATER_MATH(name)                                                                                               \
    extern double name(double) noexcept;                                                                               \
    extern double __##name(double) noexcept;                                                                           \
    extern float name##f(float) noexcept;                                                                              \
    extern float __##name##f(float) noexcept;

extern "C" {
LATER_MATH(rsqrt)
LATER_MATH(rcbrt)
LATER_MATH(sinpi)
LATER_MATH(cospi)
LATER_MATH(normcdf)
LATER_MATH(exp10)
extern void sincospi(double, double *, double *) noexcept;
extern void sincospif(float, float *, float *) noexcept;
}

#endif
