/*
 * attack_table.c: the table of attacks. hostile.h lists them; the name of an attack is that of its function.
 */
#include "hostile.h"

#define HOSTILE_ROW(name, flags, shows) {#name, name, flags, shows},
const struct attack hostile_attacks[] = {HOSTILE_ATTACKS(HOSTILE_ROW)};
#undef HOSTILE_ROW

const size_t hostile_attack_count = HOSTILE_COUNT(hostile_attacks);
