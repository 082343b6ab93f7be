/*
 * gate_table.c: puts functions of this library in place of those that other libraries call.
 *
 * A library calls functions of others through a table of addresses, which the dynamic linker fills. The table may be on
 * pages that cannot be written any more; such a page stays writable afterwards.
 */
#define _GNU_SOURCE
#include "gate_table.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
#if defined(__aarch64__)
    JUMP_SLOT = R_AARCH64_JUMP_SLOT,
    GLOBAL_DATA = R_AARCH64_GLOB_DAT
#else
    JUMP_SLOT = R_X86_64_JUMP_SLOT,
    GLOBAL_DATA = R_X86_64_GLOB_DAT
#endif
};

struct table {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * entries[2];
    size_t bytes[2];
};

static struct table read_table(const ElfW(Dyn) * section) {
    struct table table = {0};
    for (const ElfW(Dyn) *at = section; at->d_tag != DT_NULL; at++) {
        const void *address = (const void *)at->d_un.d_ptr;
        switch (at->d_tag) {
        case DT_SYMTAB:
            table.symbols = address;
            break;
        case DT_STRTAB:
            table.names = address;
            break;
        case DT_JMPREL:
            table.entries[0] = address;
            break;
        case DT_PLTRELSZ:
            table.bytes[0] = at->d_un.d_val;
            break;
        case DT_RELA:
            table.entries[1] = address;
            break;
        case DT_RELASZ:
            table.bytes[1] = at->d_un.d_val;
            break;
        default:
            break;
        }
    }
    return table;
}

static const gs_table_change *find_change(const struct table *table, const ElfW(Rela) * entry,
                                          const gs_table_change *changes, size_t count) {
    unsigned type = (unsigned)ELF64_R_TYPE(entry->r_info);
    if (type != JUMP_SLOT && type != GLOBAL_DATA)
        return NULL;
    const char *name = table->names + table->symbols[ELF64_R_SYM(entry->r_info)].st_name;
    for (size_t i = 0; i < count; i++)
        if (strcmp(changes[i].name, name) == 0)
            return &changes[i];
    return NULL;
}

static void put(uintptr_t place, gs_table_function *function) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (mprotect((void *)(place & ~(page - 1)), page, PROT_READ | PROT_WRITE) == 0)
        memcpy((void *)place, &function, sizeof function);
}

void gs_table_replace(ElfW(Addr) address, const ElfW(Dyn) * section, const gs_table_change *changes, size_t count) {
    struct table table = read_table(section);
    for (int i = 0; i < 2 && table.symbols && table.names; i++)
        for (size_t at = 0; table.entries[i] && at < table.bytes[i] / sizeof *table.entries[i]; at++) {
            const gs_table_change *change = find_change(&table, &table.entries[i][at], changes, count);
            if (change)
                put((uintptr_t)address + table.entries[i][at].r_offset, change->function);
        }
}
