/*
 * sass_guard.c: puts the guard in front of the kernels of a cubin. See sass.h.
 *
 * At the first instruction of a kernel no register, predicate or scoreboard is in use, and its branches are relative.
 * So instructions can be put in front of it, and nothing behind them changes: registers, shared memory, barriers and
 * clusters are as they were compiled. What moves is named elsewhere: symbols and relocations of the section, and places
 * in its records. The kernel gets one parameter more, at the end, and as many registers as the guard needs, and its
 * records name the instructions of the guard, too. Code for other GPUs of the family, which has no guard, is left out.
 *
 * A block must come to its guard: kernels whose blocks take others that have not begun get none.
 *
 * A kernel of which something is not understood stays as it is, with the reason.
 */
#include "sass.h"

#include <stdlib.h>

enum {
    INSTRUCTION = 16,
    GUARD_PARAMETER = sizeof(gs_guard_parameter),
    PARAMETER_ALIGN = 8,
    MOST_PARAMETER_BYTES = 32764,
    LARGE_PARAMETERS = 4352,   /* above, GS_SASS_LARGE_PARAMETER is used; before sm_90 such parameters are elsewhere */
    SIZE_BIT = 18,             /* of the flags of a parameter, from which on its size is */
    PARAMETER_FLAGS = 0x1f000, /* the others of these bits */
    FRAGMENTS = 0x3a,
    MORE_FRAGMENTS = 0x4f,
    CODE_VERSION = 0x37,  /* the record in front of the parameters, and */
    CODE_FEATURES = 0x36, /* the one behind their bank */
    OPERATION = 0x1ff,    /* of an instruction, without the form of its operands */
    TAKE_BLOCK = 0x1ca,   /* clusterlaunchcontrol.try_cancel, */
    TAKE_BLOCK_FROM = 100
};

struct kernel {
    const char *name;
    uint32_t text;  /* section */
    uint32_t entry; /* symbol */
    gs_sass_section *info, *constants;
    gs_sass_records records;
    uint32_t bank_symbol, parameter_bytes, parameter, offset;
};

struct guarding {
    gs_sass_image *image;
    const gs_guard *guard;
    gs_sass_records all;    /* .nv.info: records about all kernels */
    gs_sass_section *about; /* and its section, or NULL */
    uint32_t *moved;        /* of each section: by how many bytes its code moves */
    const char **reasons;   /* of each section: why it cannot */
    gs_error *error;
};

const gs_guard *gs_guard_find(int architecture) {
    for (size_t i = 0; i < gs_guard_count; i++)
        if (gs_guards[i].architecture == architecture)
            return &gs_guards[i];
    return NULL;
}

/* ---- what points into a kernel ---- */

/* The symbol of the kernel whose code is in a section; GS_SASS_NONE: it is a function. NULL in `reason`: it is at the
   beginning, and alone there. */
static uint32_t entry_of(const gs_sass_image *image, uint32_t text, const char **reason) {
    uint32_t entry = GS_SASS_NONE;
    for (uint32_t i = 0; i < image->symbols.count; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        bool is_here = symbol->section == text && gs_sass_type(symbol) == GS_SASS_FUNCTION;
        if (is_here && symbol->other & GS_SASS_ENTRY)
            entry = i;
        if (is_here && (symbol->other & GS_SASS_ENTRY ? symbol->value != 0 || (entry != i && entry != GS_SASS_NONE)
                                                      : symbol->value == 0))
            *reason = "its entry is not at the start of its code";
    }
    return entry;
}

/* Why code that a relocation names cannot be moved, or NULL. */
static const char *reason_to_stay(const gs_sass_section *section, const gs_sass_symbol *symbol, size_t at) {
    bool is_function = gs_sass_type(symbol) == GS_SASS_FUNCTION, has_addend = gs_sass_has_addends(section);
    bool is_start = !has_addend || gs_sass_long(&section->bytes, at + 16) == 0;
    if (!has_addend && !is_function)
        return "a relocation into its code has no addend";
    return symbol->other & GS_SASS_ENTRY && is_start ? "its address is taken" : NULL;
}

static void find_reasons(struct guarding *guarding) {
    const gs_sass_image *image = guarding->image;
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_sass_section *section = &image->sections.data[i];
        if (!gs_sass_has_relocations(section) ||
            !(image->sections.data[section->info].flags & GS_SASS_IN_MEMORY)) /* for debuggers */
            continue;
        size_t step = gs_sass_relocation_bytes(section);
        for (size_t at = 0; at + step <= section->bytes.count; at += step) {
            const gs_sass_symbol *symbol = gs_sass_relocation_symbol(image, section, at);
            const char *reason = symbol && symbol->section != GS_SASS_NONE ? reason_to_stay(section, symbol, at) : NULL;
            if (reason)
                guarding->reasons[symbol->section] = reason;
        }
    }
}

/* Whether code takes blocks that have not begun, and does their work: they never come to their guard. */
static bool takes_blocks(const gs_text *code) {
    for (size_t at = 0; at + INSTRUCTION <= code->count; at += INSTRUCTION)
        if ((gs_sass_word(code, at) & OPERATION) == TAKE_BLOCK)
            return true;
    return false;
}

/* A function that takes blocks may be called by any kernel. */
static void find_takers(struct guarding *guarding) {
    static const char reason[] = "it takes blocks that have not begun", prefix[] = ".text";
    const gs_sass_image *image = guarding->image;
    bool is_any = false;
    for (uint32_t i = 0; i < image->sections.count; i++) {
        const char *other;
        const gs_sass_section *section = &image->sections.data[i];
        if (strncmp(section->name, prefix, sizeof prefix - 1) != 0 || !takes_blocks(&section->bytes))
            continue;
        guarding->reasons[i] = reason;
        is_any = is_any || entry_of(image, i, &other) == GS_SASS_NONE;
    }
    for (uint32_t i = 0; i < image->sections.count && is_any; i++)
        guarding->reasons[i] = reason;
}

/* Lets a relocation lead to the same instruction as before. Lists for debuggers know nothing of the guard: there the
   first instruction is that of the kernel as it was compiled. */
static void move_target(struct guarding *guarding, gs_sass_section *section, size_t at, const gs_sass_symbol *symbol) {
    enum { ADDRESS = 2 };
    gs_sass_section *changed = &guarding->image->sections.data[section->info];
    uint32_t moved = guarding->moved[symbol->section];
    uint64_t place = gs_sass_long(&section->bytes, at);
    bool is_for_debuggers = !(changed->flags & GS_SASS_IN_MEMORY);
    if (!(symbol->other & GS_SASS_ENTRY) && gs_sass_type(symbol) != GS_SASS_SECTION)
        return; /* the symbol moves */
    if (gs_sass_has_addends(section)) {
        uint64_t addend = gs_sass_long(&section->bytes, at + 16);
        if (addend || is_for_debuggers)
            gs_sass_put_long(&section->bytes, at + 16, addend + moved);
    } else if (is_for_debuggers && gs_sass_word(&section->bytes, at + 8) == ADDRESS && changed->bytes.count >= 8 &&
               place <= changed->bytes.count - 8) {
        gs_sass_put_long(&changed->bytes, place, gs_sass_long(&changed->bytes, place) + moved);
    }
}

static void move_relocations(struct guarding *guarding, gs_sass_section *section) {
    size_t step = gs_sass_relocation_bytes(section);
    uint32_t here = guarding->moved[section->info];
    for (size_t at = 0; at + step <= section->bytes.count; at += step) {
        const gs_sass_symbol *symbol = gs_sass_relocation_symbol(guarding->image, section, at);
        gs_sass_put_long(&section->bytes, at, gs_sass_long(&section->bytes, at) + here);
        if (symbol && symbol->section != GS_SASS_NONE)
            move_target(guarding, section, at, symbol);
    }
}

static void move_symbols(struct guarding *guarding) {
    for (size_t i = 0; i < guarding->image->symbols.count; i++) {
        gs_sass_symbol *symbol = &guarding->image->symbols.data[i];
        uint32_t moved = symbol->section == GS_SASS_NONE ? 0 : guarding->moved[symbol->section];
        if (gs_sass_type(symbol) == GS_SASS_SECTION)
            continue;
        if (symbol->other & GS_SASS_ENTRY)
            symbol->size += moved;
        else if (symbol->value)
            symbol->value += moved;
    }
}

/* ---- the parameters of a kernel ---- */

/* Reads where the parameters are. NULL, or why that is not known. */
static const char *find_parameters(struct guarding *guarding, struct kernel *kernel) {
    const gs_sass_image *image = guarding->image;
    const gs_sass_record *bank = gs_sass_records_find(&kernel->records, GS_SASS_PARAMETER_BANK);
    uint32_t base = guarding->guard->parameter_base;
    kernel->bank_symbol = GS_SASS_NONE;
    if (bank && bank->count == 8) {
        uint32_t word = gs_sass_word(&kernel->records.bytes, bank->at + 4);
        kernel->bank_symbol = gs_sass_word(&kernel->records.bytes, bank->at);
        kernel->parameter_bytes = word >> 16;
        base = word & 0xffff;
    }
    for (uint32_t i = 0; i < image->symbols.count && kernel->bank_symbol == GS_SASS_NONE; i++)
        if (image->symbols.data[i].section == (uint32_t)(kernel->constants - image->sections.data) &&
            gs_sass_type(&image->symbols.data[i]) == GS_SASS_SECTION)
            kernel->bank_symbol = i;
    if (kernel->bank_symbol == GS_SASS_NONE || base != guarding->guard->parameter_base ||
        kernel->constants->bytes.count != base + kernel->parameter_bytes)
        return "the place of its parameters is not known";
    for (size_t i = 0; i < kernel->records.count; i++)
        kernel->parameter += kernel->records.data[i].code == GS_SASS_PARAMETER ||
                             kernel->records.data[i].code == GS_SASS_LARGE_PARAMETER;
    kernel->offset = (kernel->parameter_bytes + PARAMETER_ALIGN - 1) & ~(uint32_t)(PARAMETER_ALIGN - 1);
    if (kernel->offset + GUARD_PARAMETER >
        (guarding->guard->architecture < 90 ? LARGE_PARAMETERS : MOST_PARAMETER_BYTES))
        return "its parameters leave no room for one more";
    return kernel->parameter_bytes && !kernel->parameter ? "its parameters are not listed" : NULL;
}

/* The record of a parameter, as one of a kernel with many bytes of parameters. */
static void enlarge_parameters(struct kernel *kernel) {
    for (size_t i = 0; i < kernel->records.count; i++) {
        gs_sass_record *record = &kernel->records.data[i];
        if (record->code != GS_SASS_PARAMETER || record->count < 12)
            continue;
        record->code = GS_SASS_LARGE_PARAMETER;
        gs_sass_put_word(&kernel->records.bytes, record->at + 8,
                         gs_sass_word(&kernel->records.bytes, record->at + 8) >> SIZE_BIT);
    }
}

static size_t place_of(const gs_sass_records *records, uint8_t code, uint8_t other, size_t otherwise) {
    for (size_t i = 0; i < records->count; i++)
        if (records->data[i].code == code || records->data[i].code == other)
            return i;
    return otherwise;
}

static bool add_parameter(struct kernel *kernel, uint32_t base) {
    gs_sass_records *records = &kernel->records;
    uint32_t bytes = kernel->offset + GUARD_PARAMETER;
    bool is_large = bytes > LARGE_PARAMETERS || gs_sass_records_find(records, GS_SASS_LARGE_PARAMETER);
    uint32_t words[] = {0, kernel->parameter | kernel->offset << 16,
                        is_large ? GUARD_PARAMETER : GUARD_PARAMETER << SIZE_BIT | PARAMETER_FLAGS};
    uint32_t bank[] = {kernel->bank_symbol, bytes << 16 | base};
    if (is_large)
        enlarge_parameters(kernel);
    size_t version = place_of(records, CODE_VERSION, CODE_VERSION, SIZE_MAX);
    size_t place = place_of(records, GS_SASS_PARAMETER, GS_SASS_LARGE_PARAMETER, version == SIZE_MAX ? 0 : version + 1);
    if (!gs_sass_records_insert(records, place, is_large ? GS_SASS_LARGE_PARAMETER : GS_SASS_PARAMETER, words,
                                GS_COUNT(words)))
        return false;
    const gs_sass_record *old = gs_sass_records_find(records, GS_SASS_PARAMETER_BANK);
    if (old)
        gs_sass_put_word(&records->bytes, old->at + 4, bank[1]);
    size_t end = place_of(records, CODE_FEATURES, CODE_FEATURES, records->count);
    if (!old && !gs_sass_records_insert(records, end, GS_SASS_PARAMETER_BANK, bank, GS_COUNT(bank)))
        return false;
    for (size_t i = 0; i < records->count; i++)
        if (records->data[i].code == GS_SASS_PARAMETERS_SIZE)
            records->data[i].value = (uint16_t)bytes;
    gs_sass_record size = {.format = 3, .code = GS_SASS_PARAMETERS_SIZE, .value = (uint16_t)bytes};
    if (old || !GS_RESERVE(records, 1))
        return old != NULL;
    memmove(records->data + end + 1, records->data + end, (records->count - end) * sizeof size);
    records->data[end] = size;
    records->count++;
    return true;
}

/* ---- what records say about the guard ---- */

/* A record with no words. */
static bool insert_flag(gs_sass_records *records, size_t place, uint8_t format, uint8_t code) {
    if (!GS_RESERVE(records, 1))
        return false;
    memmove(records->data + place + 1, records->data + place, (records->count - place) * sizeof *records->data);
    records->data[place] = (gs_sass_record){.format = format, .code = code};
    records->count++;
    return true;
}

static bool is_list(uint8_t code) {
    return code == GS_SASS_EXITS || code == GS_SASS_SHUFFLES || code == GS_SASS_SHUFFLE_MASKS ||
           code == GS_SASS_WARP_WIDE;
}

/* Lists get the places of the guard in front; other notes are taken where the kernel has none. */
static bool add_notes(gs_sass_records *records, const gs_guard *guard) {
    bool is_well = true;
    for (uint32_t i = guard->note_count; i-- > 0 && is_well;) {
        uint8_t code = guard->notes[i].code, format = guard->notes[i].format;
        size_t place = place_of(records, GS_SASS_EXITS, GS_SASS_EXITS, records->count);
        if (is_list(code))
            is_well = gs_sass_records_prepend(records, place, code, guard->notes[i].word);
        else if (!gs_sass_records_find(records, code))
            is_well = format == 4 ? gs_sass_records_prepend(records, place, code, guard->notes[i].word)
                                  : insert_flag(records, place, format, code);
    }
    return is_well;
}

/* Whether the lists have room for the places of the guard. */
static bool has_room(const gs_sass_records *records) {
    for (size_t i = 0; i < records->count; i++)
        if (is_list(records->data[i].code) && records->data[i].count > UINT16_MAX - 4 * GS_GUARD_NOTES)
            return false;
    return true;
}

/* ---- registers ---- */

/* How many registers a kernel has, and, with `least`, that it has at least that number; 0: not known. */
static uint32_t registers_of(struct guarding *guarding, const struct kernel *kernel, uint32_t least) {
    gs_sass_section *text = &guarding->image->sections.data[kernel->text];
    uint32_t count = text->info >> 24;
    for (size_t i = 0; i < guarding->all.count; i++) {
        const gs_sass_record *record = &guarding->all.data[i];
        if (record->code != GS_SASS_REGISTERS || record->count != 8 ||
            gs_sass_word(&guarding->all.bytes, record->at) != kernel->entry)
            continue;
        count = gs_sass_word(&guarding->all.bytes, record->at + 4);
        if (count < least) /* the bytes of the list are those of the section */
            gs_sass_put_word(&guarding->about->bytes, record->at + 4, least);
    }
    if (text->info >> 24 && text->info >> 24 < least)
        text->info = (text->info & 0xffffff) | least << 24;
    return count && count < least ? least : count;
}

/* ---- one kernel ---- */

/* Prepares the records of a kernel. NULL, or why it stays as it is. */
static const char *prepare_kernel(struct guarding *guarding, struct kernel *kernel, bool *failed) {
    const gs_sass_image *image = guarding->image;
    kernel->info = gs_sass_find(image, ".nv.info.", kernel->name);
    kernel->constants = gs_sass_find(image, ".nv.constant0.", kernel->name);
    if (!kernel->info || !kernel->constants || image->sections.data[kernel->text].bytes.count % INSTRUCTION)
        return "a part of it is missing";
    gs_error error;
    gs_code code = gs_sass_records_read(&kernel->records, &kernel->info->bytes, &error);
    *failed = code == GS_E_MEMORY;
    if (code != GS_OK)
        return "its records are damaged";
    if (gs_sass_records_find(&kernel->records, FRAGMENTS) || gs_sass_records_find(&kernel->records, MORE_FRAGMENTS))
        return "its code is in fragments";
    const char *reason = find_parameters(guarding, kernel);
    if (reason)
        return reason;
    if (!registers_of(guarding, kernel, 0))
        return "its number of registers is not known";
    if (!has_room(&kernel->records))
        return "its records are too long";
    return gs_sass_records_move(&kernel->records, guarding->guard->count * INSTRUCTION) ? NULL
                                                                                        : "it has an unknown record";
}

/* The guard with the offset of its parameter. */
static void put_guard(const gs_guard *guard, uint32_t offset, gs_text *into) {
    for (uint32_t i = 0; i < guard->count; i++) {
        uint64_t low = guard->code[2 * i], high = guard->code[2 * i + 1];
        for (uint32_t site = 0; site < guard->site_count; site++)
            low += guard->sites[site].instruction == i ? (uint64_t)offset << guard->sites[site].shift : 0;
        char bytes[INSTRUCTION];
        for (int k = 0; k < 8; k++) {
            bytes[k] = (char)(low >> 8 * k);
            bytes[8 + k] = (char)(high >> 8 * k);
        }
        gs_text_put(into, bytes, sizeof bytes);
    }
}

static bool change_kernel(struct guarding *guarding, struct kernel *kernel) {
    const gs_guard *guard = guarding->guard;
    gs_sass_section *text = &guarding->image->sections.data[kernel->text];
    gs_text code = {0}, info = {0};
    put_guard(guard, kernel->offset, &code);
    gs_text_put(&code, text->bytes.data, text->bytes.count);
    bool is_well = add_parameter(kernel, guard->parameter_base) && add_notes(&kernel->records, guard) &&
                   gs_sass_records_write(&kernel->records, &info);
    static const char zeros[PARAMETER_ALIGN + GUARD_PARAMETER];
    gs_text_put(&kernel->constants->bytes, zeros,
                guard->parameter_base + kernel->offset + GUARD_PARAMETER - kernel->constants->bytes.count);
    if (code.failed || kernel->constants->bytes.failed || !is_well) {
        gs_text_free(&code);
        gs_text_free(&info);
        return false;
    }
    gs_text_free(&text->bytes);
    text->bytes = code;
    gs_text_free(&kernel->info->bytes);
    kernel->info->bytes = info;
    guarding->moved[kernel->text] = guard->count * INSTRUCTION;
    return true;
}

static uint32_t cluster_of(const gs_sass_records *own) {
    uint32_t blocks[3];
    gs_sass_records_three(own, GS_SASS_CLUSTER, blocks);
    return blocks[0] * blocks[1] * blocks[2];
}

static gs_code guard_kernel(struct guarding *guarding, struct kernel *kernel, gs_guarded_list *list) {
    bool failed = false;
    const char *reason = guarding->reasons[kernel->text];
    gs_guarded guarded = {.kernel = kernel->name};
    kernel->entry = entry_of(guarding->image, kernel->text, &reason);
    if (kernel->entry == GS_SASS_NONE)
        return GS_OK;
    if (!reason)
        reason = prepare_kernel(guarding, kernel, &failed);
    if (!reason && !failed) {
        guarded.registers = registers_of(guarding, kernel, guarding->guard->registers);
        guarded.cluster = cluster_of(&kernel->records);
        failed = !change_kernel(guarding, kernel);
    }
    guarded.refused = reason;
    guarded.parameter = reason ? 0 : kernel->parameter;
    guarded.offset = reason ? 0 : kernel->offset;
    return failed || !GS_PUSH(list, guarded) ? gs_fail_memory(guarding->error) : GS_OK;
}

/* From sm_100 on a cubin describes its code a second time, for GPUs of the same family, with the number of its
   instructions and the parameters. That is of the code without guard, so the driver must not find it. */
static void drop_other_code(gs_sass_image *image) {
    static const char *const prefixes[] = {".nv.merc.", ".nv.capmerc."};
    for (size_t i = 0; i < image->sections.count; i++) {
        gs_sass_section *section = &image->sections.data[i];
        for (size_t k = 0; k < GS_COUNT(prefixes); k++)
            if (strncmp(section->name, prefixes[k], strlen(prefixes[k])) == 0) {
                gs_text_free(&section->bytes);
                *section = (gs_sass_section){.name = ""}; /* the others keep their numbers */
            }
    }
}

static bool has_guards(const struct guarding *guarding) {
    for (size_t i = 0; i < guarding->image->sections.count; i++)
        if (guarding->moved[i])
            return true;
    return false;
}

static gs_code guard_kernels(struct guarding *guarding, gs_guarded_list *list) {
    static const char prefix[] = ".text.";
    gs_sass_image *image = guarding->image;
    gs_code code = GS_OK;
    find_reasons(guarding);
    if (guarding->guard->architecture >= TAKE_BLOCK_FROM)
        find_takers(guarding);
    for (uint32_t i = 0; i < image->sections.count && code == GS_OK; i++) {
        if (strncmp(image->sections.data[i].name, prefix, sizeof prefix - 1) != 0)
            continue;
        struct kernel kernel = {.name = image->sections.data[i].name + sizeof prefix - 1, .text = i};
        code = guard_kernel(guarding, &kernel, list);
        gs_sass_records_free(&kernel.records);
    }
    for (size_t i = 0; i < image->sections.count && code == GS_OK; i++)
        if (gs_sass_has_relocations(&image->sections.data[i]))
            move_relocations(guarding, &image->sections.data[i]);
    if (code == GS_OK)
        move_symbols(guarding);
    if (code == GS_OK && has_guards(guarding))
        drop_other_code(image);
    return code;
}

gs_code gs_sass_guard(gs_sass_image *image, gs_guarded_list *list, gs_error *error) {
    int architecture = gs_sass_architecture(image);
    struct guarding guarding = {.image = image, .guard = gs_guard_find(architecture), .error = error};
    if (!guarding.guard)
        return gs_fail(error, GS_E_REFUSED, "there is no guard for sm_%d", architecture);
    guarding.moved = calloc(image->sections.count + 1, sizeof *guarding.moved);
    guarding.reasons = calloc(image->sections.count + 1, sizeof *guarding.reasons);
    guarding.about = gs_sass_find(image, ".nv.info", "");
    gs_code code = guarding.moved && guarding.reasons ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && guarding.about)
        code = gs_sass_records_read(&guarding.all, &guarding.about->bytes, error);
    if (code == GS_OK)
        code = guard_kernels(&guarding, list);
    gs_sass_records_free(&guarding.all);
    free(guarding.moved);
    free(guarding.reasons);
    return code;
}
