/*
 * gate_table.c: puts a function of this library in place of one that another library calls.
 *
 * A library calls functions of others through a table of addresses, which the dynamic linker fills. The dynamic section
 * of the library has two lists of entries of the table, each with the number of a symbol. The table may be on read-only
 * pages; such a page stays writable afterwards.
 */
#define _GNU_SOURCE
#include "gate_table.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
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

/* The value of `tag` in the dynamic section, an address or a size; 0: it is missing. */
static uintptr_t read_section(const struct link_map *library, ElfW(Sxword) tag) {
    const ElfW(Dyn) *at = library->l_ld;
    while (at->d_tag != DT_NULL && at->d_tag != tag)
        at++;
    return at->d_tag == tag ? at->d_un.d_val : 0;
}

static const char *name_of(const struct link_map *library, const ElfW(Rela) * entry) {
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)read_section(library, DT_SYMTAB);
    return (const char *)read_section(library, DT_STRTAB) + symbols[ELF64_R_SYM(entry->r_info)].st_name;
}

static void put_function(uintptr_t place, gs_table_function *function) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (mprotect((void *)(place & ~(page - 1)), page, PROT_READ | PROT_WRITE) == 0)
        memcpy((void *)place, &function, sizeof function);
}

/* In one of the two lists. */
static void replace_in(const struct link_map *library, ElfW(Sxword) list, ElfW(Sxword) size, const char *name,
                       gs_table_function *function) {
    const ElfW(Rela) *entries = (const ElfW(Rela) *)read_section(library, list);
    size_t count = entries ? read_section(library, size) / sizeof *entries : 0;
    for (size_t i = 0; i < count; i++) {
        unsigned type = (unsigned)ELF64_R_TYPE(entries[i].r_info);
        if ((type == JUMP_SLOT || type == GLOBAL_DATA) && strcmp(name_of(library, &entries[i]), name) == 0)
            put_function(library->l_addr + entries[i].r_offset, function);
    }
}

void gs_table_replace(void *library, const char *name, gs_table_function *function) {
    struct link_map *found = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &found) != 0)
        return;
    replace_in(found, DT_JMPREL, DT_PLTRELSZ, name, function);
    replace_in(found, DT_RELA, DT_RELASZ, name, function);
}
