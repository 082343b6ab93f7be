/*
 * sass_variables.c: a second copy of a module uses the variables of the first. See sass.h.
 *
 * Code that ptxas has compiled as a whole program reads the addresses of variables from a table, .nv.constant4, which
 * the driver fills in as relocations say. Each variable has a symbol in .nv.global or .nv.global.init. In the copy the
 * table has the addresses of the first copy's variables as numbers, and the relocations are gone. Nothing else in the
 * copy leads to a variable: pointers in the initial values of variables lie in variables of the copy, which no code
 * uses any more.
 *
 * What could lead to one is refused: addresses in code, as nvlink leaves them there; textures; memory and relocations
 * of other kinds. So are addresses of functions, by which a program could see that there are two of them. Pointers to
 * functions in whole programs are numbers of a table, and are the same in both copies.
 *
 * Constants that a program writes (.nv.constant3) are not reached by addresses but by their places. The driver gives
 * each bank one piece of memory, in which constants lie as their symbols say.
 */
#include "sass.h"

#include <stdlib.h>

enum { ADDRESS = 2, LOW_HALF = 0x38, HIGH_HALF = 0x39, CALL = 0x3a, CALL_FROM_90 = 0x4b }; /* types of relocations */

static const char table_name[] = ".nv.constant4", constants_name[] = ".nv.constant3", zeros_name[] = ".nv.global",
                  values_name[] = ".nv.global.init";

struct sharing {
    gs_sass_image *image;
    const char *kernel; /* the only one that is launched, or NULL */
    gs_sass_address *find;
    void *context;
    gs_error *error;
    bool *is_kept; /* of each symbol: code uses that of the copy */
};

/* ---- names ---- */

static bool begins_with(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_number(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* Whether a variable has a name that compilers give to what no code writes: strings ("$str", "$str$3"), names of
   functions ("__unnamed_1"), tables of the mathematical functions ("__cudart_i2opi_f"). A program could use them, too,
   but then the driver knows its variables by these names. */
static bool has_name_of_compiler(const char *name) {
    return strcmp(name, "$str") == 0 || (begins_with(name, "$str$") && is_number(name + 5)) ||
           (begins_with(name, "__unnamed_") && is_number(name + 10)) || begins_with(name, "__cudart_");
}

static const char *section_name(const gs_sass_image *image, uint32_t section) {
    return section < image->sections.count ? image->sections.data[section].name : "";
}

static bool is_in(const gs_sass_image *image, const gs_sass_symbol *symbol, const char *name) {
    return symbol->section != GS_SASS_NONE && strcmp(section_name(image, symbol->section), name) == 0;
}

static bool is_variable(const gs_sass_image *image, const gs_sass_symbol *symbol) {
    return gs_sass_type(symbol) == GS_SASS_OBJECT &&
           (is_in(image, symbol, zeros_name) || is_in(image, symbol, values_name));
}

static bool has_other_of_name(const gs_sass_image *image, const gs_sass_symbol *symbol, const char *name) {
    for (size_t i = 0; i < image->symbols.count; i++) {
        const gs_sass_symbol *other = &image->symbols.data[i];
        if (other != symbol && gs_sass_type(other) == GS_SASS_OBJECT &&
            strcmp(gs_sass_symbol_name(image, other), name) == 0)
            return true;
    }
    return false;
}

/* ---- the table of addresses ---- */

static gs_code refuse_type(const struct sharing *sharing, uint32_t type, const char *where) {
    return gs_fail(sharing->error, GS_E_REFUSED, "unknown relocation: type %u in %s", type, where);
}

/* Finds where the variable of a symbol is. `*is_found` is false: the copy's own is used. */
static gs_code find_variable(struct sharing *sharing, const gs_sass_symbol *symbol, uint64_t *address, bool *is_found) {
    const char *name = gs_sass_symbol_name(sharing->image, symbol);
    if (!name[0] || has_other_of_name(sharing->image, symbol, name))
        return gs_fail(sharing->error, GS_E_REFUSED, "a name does not identify a variable: %s", name);
    *is_found = sharing->find(sharing->context, name, symbol->size, address);
    if (*is_found || (has_name_of_compiler(name) && is_in(sharing->image, symbol, values_name)))
        return GS_OK;
    return gs_fail(sharing->error, GS_E_REFUSED, "variable not found: %s", name);
}

/* Puts the address of a variable into the table. `*is_found` is false: the relocation stays. */
static gs_code share_address(struct sharing *sharing, const gs_sass_section *relocations, size_t at, bool *is_found) {
    gs_text *table = &sharing->image->sections.data[relocations->info].bytes;
    const gs_sass_symbol *symbol = gs_sass_relocation_symbol(sharing->image, relocations, at);
    uint64_t place = gs_sass_long(&relocations->bytes, at), address = 0;
    uint32_t type = gs_sass_word(&relocations->bytes, at + 8);
    *is_found = false;
    if (!symbol || type != ADDRESS || table->count < 8 || place > table->count - 8)
        return refuse_type(sharing, type, table_name);
    if (gs_sass_type(symbol) == GS_SASS_FUNCTION && symbol->section == GS_SASS_NONE)
        return GS_OK; /* of the driver: printf, malloc */
    if (!is_variable(sharing->image, symbol))
        return gs_fail(sharing->error, GS_E_REFUSED, "it has an address that is not of a variable: %s",
                       gs_sass_symbol_name(sharing->image, symbol));
    gs_code code = find_variable(sharing, symbol, &address, is_found);
    uint64_t addend = gs_sass_long(gs_sass_has_addends(relocations) ? &relocations->bytes : table,
                                   gs_sass_has_addends(relocations) ? at + 16 : place);
    if (code == GS_OK && *is_found)
        gs_sass_put_long(table, place, address + addend);
    else
        sharing->is_kept[symbol - sharing->image->symbols.data] = true;
    return code;
}

static gs_code share_table(struct sharing *sharing, gs_sass_section *relocations) {
    size_t step = gs_sass_relocation_bytes(relocations), kept = 0;
    gs_text *bytes = &relocations->bytes;
    gs_code code = GS_OK;
    for (size_t at = 0; at + step <= bytes->count && code == GS_OK; at += step) {
        bool is_found;
        code = share_address(sharing, relocations, at, &is_found);
        if (is_found)
            continue;
        memmove(bytes->data + kept, bytes->data + at, step);
        kept += step;
    }
    bytes->count = kept;
    return code;
}

/* ---- other relocations ---- */

/* Code, and its tables of jumps: they may call functions, jump within them, and use shared memory. */
static gs_code check_code(struct sharing *sharing, const gs_sass_section *relocations, size_t at) {
    const gs_sass_image *image = sharing->image;
    const gs_sass_symbol *symbol = gs_sass_relocation_symbol(image, relocations, at);
    uint32_t type = gs_sass_word(&relocations->bytes, at + 8);
    bool is_half = type == LOW_HALF || type == HIGH_HALF, is_call = type == CALL || type == CALL_FROM_90;
    if (!symbol || !(is_half || is_call || type == ADDRESS))
        return refuse_type(sharing, type, section_name(image, relocations->info));
    bool is_inside = gs_sass_has_addends(relocations) && gs_sass_long(&relocations->bytes, at + 16);
    bool is_outside = symbol->section == GS_SASS_NONE;
    if (gs_sass_type(symbol) == GS_SASS_FUNCTION
            ? is_call || is_inside || is_outside
            : !is_outside && begins_with(section_name(image, symbol->section), ".nv.shared."))
        return GS_OK;
    return gs_fail(sharing->error, GS_E_REFUSED, "its code has the address of a variable or function: %s",
                   gs_sass_symbol_name(image, symbol));
}

/* The initial value of a variable that the copy keeps for itself must not lead to others. */
static gs_code check_value(struct sharing *sharing, const gs_sass_section *relocations, size_t at) {
    const gs_sass_image *image = sharing->image;
    uint64_t place = gs_sass_long(&relocations->bytes, at);
    for (size_t i = 0; i < image->symbols.count; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        bool is_inside = symbol->value < place + 8 && (place < symbol->value || place - symbol->value < symbol->size);
        if (sharing->is_kept[i] && symbol->section == relocations->info && is_inside)
            return gs_fail(sharing->error, GS_E_REFUSED, "a value has the address of another variable: %s",
                           gs_sass_symbol_name(image, symbol));
    }
    return GS_OK;
}

static gs_code check_relocations(struct sharing *sharing, const gs_sass_section *relocations) {
    const gs_sass_image *image = sharing->image;
    const char *name = section_name(image, relocations->info);
    gs_code code = GS_OK;
    for (size_t at = 0, step = gs_sass_relocation_bytes(relocations);
         at + step <= relocations->bytes.count && code == GS_OK; at += step) {
        if (begins_with(name, ".text.") || begins_with(name, ".nv.constant2."))
            code = check_code(sharing, relocations, at);
        else if (strcmp(name, values_name) == 0)
            code = check_value(sharing, relocations, at);
        else
            code = gs_fail(sharing->error, GS_E_REFUSED, "a section has relocations: %s", name);
    }
    return code;
}

/* Tools that rearrange a cubin leave a wrong number in the relocations of a table of jumps. There is one table of
   symbols, so they can only be meant if each of them is a place in the code that has this table. */
static gs_code check_jumps(const struct sharing *sharing, const gs_sass_section *relocations) {
    static const char prefix[] = ".nv.constant2.";
    const gs_sass_image *image = sharing->image;
    const char *name = section_name(image, relocations->info);
    size_t step = gs_sass_relocation_bytes(relocations), at = 0;
    bool is_well = gs_sass_has_one_table(image) && begins_with(name, prefix) && gs_sass_has_addends(relocations) &&
                   begins_with(relocations->name, ".rela") && strcmp(relocations->name + 5, name) == 0;
    for (; at + step <= relocations->bytes.count && is_well; at += step) {
        const gs_sass_symbol *symbol = gs_sass_relocation_symbol(image, relocations, at);
        uint64_t place = gs_sass_long(&relocations->bytes, at + 16);
        is_well = symbol && gs_sass_is_kernel(symbol) && place && place < symbol->size && place % 16 == 0 &&
                  strcmp(gs_sass_symbol_name(image, symbol), name + sizeof prefix - 1) == 0;
    }
    return is_well ? GS_OK
                   : gs_fail(sharing->error, GS_E_REFUSED, "relocations have symbols of their own, %s: %s",
                             section_name(image, relocations->link), relocations->name);
}

/* Whether a section of relocations changes something that a kernel can see. */
static bool changes_memory(const gs_sass_image *image, const gs_sass_section *section) {
    return gs_sass_has_relocations(section) && section->bytes.count &&
           image->sections.data[section->info].flags & GS_SASS_IN_MEMORY;
}

/* Whether relocations are for another kernel than the one that is launched, and so never matter. Functions that are no
   kernels may be called. */
static bool is_of_other_kernel(const struct sharing *sharing, const gs_sass_section *relocations) {
    static const char *const prefixes[] = {".text.", ".nv.constant2."};
    const gs_sass_image *image = sharing->image;
    const char *name = section_name(image, relocations->info);
    for (size_t i = 0; sharing->kernel && i < GS_COUNT(prefixes); i++) {
        const char *owner = name + strlen(prefixes[i]);
        if (!begins_with(name, prefixes[i]) || strcmp(owner, sharing->kernel) == 0)
            continue;
        for (size_t k = 0; k < image->symbols.count; k++) {
            const gs_sass_symbol *symbol = &image->symbols.data[k];
            if (gs_sass_type(symbol) == GS_SASS_FUNCTION && symbol->other & GS_SASS_ENTRY &&
                strcmp(gs_sass_symbol_name(image, symbol), owner) == 0)
                return true;
        }
    }
    return false;
}

/* ---- the module ---- */

/* The memory of a module consists of sections with these names; names with a dot at the end are prefixes. The code that
   the driver can translate for another GPU is .nv.merc. */
static bool is_known(const char *name) {
    static const char *const names[] = {".text.",      ".nv.constant0.", ".nv.constant1.", ".nv.constant2.",
                                        table_name,    constants_name,   zeros_name,       values_name,
                                        ".nv.shared.", ".nv.local.",     ".nv.merc."};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (names[i][strlen(names[i]) - 1] == '.' ? begins_with(name, names[i]) : strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static gs_code check_module(struct sharing *sharing) {
    const gs_sass_image *image = sharing->image;
    uint64_t bytes = 0;
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_sass_section *section = &image->sections.data[i];
        if (section->flags & GS_SASS_IN_MEMORY && section->size && !is_known(section->name))
            return gs_fail(sharing->error, GS_E_REFUSED, "unknown section: %s", section->name);
        bool is_of_variables = strcmp(section->name, zeros_name) == 0 || strcmp(section->name, values_name) == 0;
        if (is_of_variables &&
            (section->size > GS_SASS_MOST_VARIABLES || (bytes += section->size) > GS_SASS_MOST_VARIABLES))
            return gs_fail(sharing->error, GS_E_REFUSED, "its variables have more than %d MiB",
                           GS_SASS_MOST_VARIABLES >> 20);
    }
    for (size_t i = 0; i < image->symbols.count; i++) {
        const char *name = gs_sass_symbol_name(image, &image->symbols.data[i]);
        if (gs_sass_type(&image->symbols.data[i]) > GS_SASS_FILE && !begins_with(name, ".nv.reservedSmem."))
            return gs_fail(sharing->error, GS_E_REFUSED, "a symbol is neither variable nor function: %s", name);
    }
    return GS_OK;
}

/* Shares the addresses of the table, and then checks all others. */
static gs_code share_all(struct sharing *sharing) {
    gs_sass_image *image = sharing->image;
    const gs_sass_section *section = gs_sass_find(image, table_name, "");
    uint32_t table = section ? (uint32_t)(section - image->sections.data) : GS_SASS_NONE;
    gs_code code = check_module(sharing);
    for (int is_check = 0; is_check <= 1; is_check++)
        for (size_t i = 0; i < image->sections.count && code == GS_OK; i++) {
            gs_sass_section *relocations = &image->sections.data[i];
            if (!changes_memory(image, relocations) || is_check == (relocations->info == table) ||
                is_of_other_kernel(sharing, relocations))
                continue;
            if (relocations->link != image->symbol_table)
                code = check_jumps(sharing, relocations);
            if (code == GS_OK)
                code = is_check ? check_relocations(sharing, relocations) : share_table(sharing, relocations);
        }
    return code;
}

gs_code gs_sass_share_variables(gs_sass_image *image, const char *kernel, gs_sass_address *find, void *context,
                                gs_error *error) {
    struct sharing sharing = {.image = image, .kernel = kernel, .find = find, .context = context, .error = error};
    sharing.is_kept = calloc(image->symbols.count + 1, sizeof *sharing.is_kept);
    gs_code code = sharing.is_kept ? share_all(&sharing) : gs_fail_memory(error);
    free(sharing.is_kept);
    return code;
}

/* ---- constants ---- */

static gs_code take_constant(const gs_sass_image *image, const gs_sass_symbol *symbol, gs_sass_address *find,
                             void *context, gs_sass_constants *constants, gs_error *error) {
    const char *name = gs_sass_symbol_name(image, symbol);
    uint64_t address = 0;
    if (!name[0] || has_other_of_name(image, symbol, name) || !find(context, name, symbol->size, &address))
        return gs_fail(error, GS_E_REFUSED, "constant not found: %s", name);
    if (constants->name && address - symbol->value != constants->address)
        return gs_fail(error, GS_E_REFUSED, "a constant is at another offset than the others: %s", name);
    constants->begin = constants->name ? gs_min_u64(constants->begin, symbol->value) : symbol->value;
    constants->end = gs_max_u64(constants->end, symbol->value + symbol->size);
    constants->address = address - symbol->value;
    constants->name = name;
    constants->at = symbol->value;
    return GS_OK;
}

gs_code gs_sass_find_constants(const gs_sass_image *image, gs_sass_address *find, void *context,
                               gs_sass_constants *constants, gs_error *error) {
    const gs_sass_section *bank = gs_sass_find(image, constants_name, "");
    gs_code code = GS_OK;
    *constants = (gs_sass_constants){0};
    for (size_t i = 0; bank && i < image->symbols.count && code == GS_OK; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        if (gs_sass_type(symbol) != GS_SASS_OBJECT || !is_in(image, symbol, constants_name) || !symbol->size)
            continue;
        code = symbol->value > bank->size || symbol->size > bank->size - symbol->value
                   ? gs_fail(error, GS_E_REFUSED, "a constant is outside of its bank")
                   : take_constant(image, symbol, find, context, constants, error);
    }
    return code;
}
