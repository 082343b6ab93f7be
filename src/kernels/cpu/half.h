/* half.h: converts IEEE binary16 and bfloat16 to float and back, rounding to nearest even. */
#ifndef GS_HALF_H
#define GS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t gs_half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7fff);
    if (magnitude >= 0x477ff000) /* rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* becomes subnormal: adding 0.5 shifts the bits of the result to the end */
        float shifted;
        memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

static inline float gs_half_to(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff, bits;
    float value;
    if (magnitude >= 0x7c00) {
        bits = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
    } else if (magnitude < 0x400) {
        value = (float)magnitude / 16777216.0f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else {
        bits = sign | ((magnitude << 13) + 0x38000000);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t gs_bfloat_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fff;
}

static inline float gs_bfloat_to(uint16_t bfloat) {
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
