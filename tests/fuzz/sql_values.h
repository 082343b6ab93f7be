/* sql_values.h: values for databases, drawn from the bytes of an input. */
#ifndef GS_FUZZ_SQL_VALUES_H
#define GS_FUZZ_SQL_VALUES_H

#include "base/base.h"

struct bytes {
    const uint8_t *at, *end;
};

static inline unsigned take(struct bytes *bytes) {
    return bytes->at < bytes->end ? *bytes->at++ : 0;
}

/* Most are small numbers, so that rows belong together. */
static inline void put_value(gs_text *sql, struct bytes *bytes) {
    unsigned kind = take(bytes);
    if (kind < 200)
        gs_text_add(sql, "%u", kind % 64);
    else if (kind < 208)
        gs_text_add(sql, "NULL");
    else if (kind < 216)
        gs_text_add(sql, "'x%u'", take(bytes));
    else if (kind < 220)
        gs_text_add(sql, "printf('%%.*c', %u, 'x')", 1u << take(bytes) % 16);
    else if (kind < 225)
        gs_text_add(sql, "x'00ff%02x'", take(bytes));
    else if (kind < 230)
        gs_text_add(sql, "%u.5e%u", take(bytes), take(bytes) % 32);
    else {
        uint64_t value = 0;
        for (int i = 0; i < 8; i++)
            value = value << 8 | take(bytes);
        gs_text_add(sql, "%lld", (long long)(value >> kind % 64));
    }
}

#endif
