/*
 * dump_places.c: where the warps of a dump are, by grid and address.
 *
 * The dump has the code of each module, with the addresses that functions and variables have on the GPU. Only the
 * modules of grids are read. Many warps are at few addresses, so each address is looked at once.
 */
#include "dump.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGE = 256 << 20, MOST_PLACES = 100000 };

/* ---- images ---- */

static gs_code read_bytes(const gs_dump *dump, uint64_t at, uint64_t size, char **bytes, gs_error *error) {
    gs_dump_window *window = malloc(sizeof *window);
    *bytes = malloc((size_t)size + 1);
    gs_code code = window && *bytes ? GS_OK : gs_fail_memory(error);
    if (window)
        window->at = window->count = 0;
    for (uint64_t done = 0; code == GS_OK && done < size;) {
        size_t part = (size_t)gs_min_u64(size - done, GS_DUMP_WINDOW);
        const unsigned char *from = gs_dump_bytes(dump, window, at + done, part);
        if (from)
            memcpy(*bytes + done, from, part);
        else
            code = gs_fail_system(error, "read", dump->path);
        done += part;
    }
    free(window);
    return code;
}

/* Reads the code of a module; an image without sections where it cannot be read. */
static gs_code read_module(const gs_dump *dump, uint64_t module, gs_sass_image *image, gs_error *error) {
    *image = (gs_sass_image){0};
    for (size_t i = 0; i < dump->images.count; i++) {
        const gs_dump_image *found = &dump->images.data[i];
        char *bytes = NULL;
        if (found->module != module || found->size > MOST_IMAGE)
            continue;
        gs_error unread = {.code = GS_OK};
        gs_code code = read_bytes(dump, found->at, found->size, &bytes, error);
        if (code == GS_OK && gs_sass_read(image, bytes, (size_t)found->size, &unread) != GS_OK) {
            gs_sass_free(image);
            *image = (gs_sass_image){0};
        }
        free(bytes);
        return code;
    }
    return GS_OK;
}

/* The symbol of a type at an address: one that begins there, or contains it. */
static const gs_sass_symbol *symbol_at(const gs_sass_image *image, uint64_t address, int type) {
    for (size_t i = 0; i < image->symbols.count; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        if (gs_sass_type(symbol) == type && symbol->value && symbol->value <= address &&
            address - symbol->value < gs_max_u64(symbol->size, 1))
            return symbol;
    }
    return NULL;
}

static char *name_of(const gs_sass_image *image, const gs_sass_symbol *symbol) {
    const char *name = symbol ? gs_sass_symbol_name(image, symbol) : "";
    return *name ? strdup(name) : NULL;
}

/* ---- places ---- */

static uint64_t address_of(const gs_dump *dump, const gs_dump_warp *warp, const gs_sass_wait *wait) {
    uint64_t base = 0;
    if (!wait->is_global || wait->base + 1u >= warp->registers || !warp->registers_at)
        return 0;
    gs_dump_window *window = calloc(1, sizeof *window);
    const unsigned char *bytes =
        window ? gs_dump_bytes(dump, window, warp->registers_at + 4u * wait->base, sizeof base) : NULL;
    if (bytes)
        memcpy(&base, bytes, sizeof base);
    free(window);
    return base ? base + (uint64_t)(int64_t)wait->offset : 0;
}

/* What a warp at an address waits for; `*pc` becomes the address of the instruction that waits. */
static gs_sass_wait wait_of(const gs_dump *dump, const gs_sass_image *image, uint64_t *pc) {
    const gs_sass_symbol *function = symbol_at(image, *pc, GS_SASS_FUNCTION);
    const gs_sass_section *section =
        function && function->section != GS_SASS_NONE ? &image->sections.data[function->section] : NULL;
    if (!section || *pc < section->address || *pc - section->address >= section->bytes.count)
        return (gs_sass_wait){.base = 255};
    gs_sass_wait wait = gs_sass_wait_at(section->bytes.data, section->bytes.count, (int)dump->architecture,
                                        (size_t)(*pc - section->address));
    if (wait.kind != GS_SASS_RUNS)
        *pc = section->address + wait.read;
    return wait;
}

static void describe_place(const gs_dump *dump, const gs_sass_image *image, const gs_dump_warp *warp,
                           gs_dump_place *place) {
    const gs_sass_symbol *function = symbol_at(image, place->pc, GS_SASS_FUNCTION);
    place->function = name_of(image, function);
    place->offset = place->pc - (function ? function->value : warp->start);
    gs_sass_line(image, place->pc, &place->source, &place->line);
    place->address = address_of(dump, warp, &place->wait);
    if (place->address)
        place->variable = name_of(image, symbol_at(image, place->address, GS_SASS_OBJECT));
}

/* The answers for the addresses that were seen last: most warps are at few. */
struct seen {
    uint64_t pc, place;
    gs_sass_wait wait;
};

static gs_dump_place *place_of(const gs_dump *dump, const gs_sass_image *image, const gs_dump_warp *warp,
                               struct seen *seen, size_t first, gs_dump_places *places) {
    enum { SLOTS = 64 };
    uint32_t grid = dump->blocks.data[warp->block].grid;
    struct seen *slot = &seen[warp->pc / 16 % SLOTS];
    if (slot->pc != warp->pc) {
        slot->pc = slot->place = warp->pc;
        slot->wait = wait_of(dump, image, &slot->place);
    }
    for (size_t i = first; i < places->count; i++)
        if (places->data[i].pc == slot->place)
            return &places->data[i];
    gs_dump_place made = {.grid = grid, .pc = slot->place, .wait = slot->wait, .last_block = GS_DUMP_NONE};
    if (!GS_PUSH(places, made))
        return NULL;
    describe_place(dump, image, warp, &places->data[places->count - 1]);
    return &places->data[places->count - 1];
}

static gs_code add_grid_places(const gs_dump *dump, uint32_t grid, gs_dump_places *places, gs_error *error) {
    gs_sass_image image;
    struct seen seen[64] = {0};
    size_t first = places->count;
    gs_code code = read_module(dump, dump->grids.data[grid].module, &image, error);
    char *kernel =
        code == GS_OK ? name_of(&image, symbol_at(&image, dump->grids.data[grid].entry, GS_SASS_FUNCTION)) : NULL;
    if (code == GS_OK && !GS_PUSH(&places->kernels, kernel))
        code = gs_fail_memory(error);
    for (size_t i = 0; code == GS_OK && i < dump->warps.count && places->count < MOST_PLACES; i++) {
        const gs_dump_warp *warp = &dump->warps.data[i];
        if (dump->blocks.data[warp->block].grid != grid)
            continue;
        gs_dump_place *place = place_of(dump, &image, warp, seen, first, places);
        if (!place)
            return gs_sass_free(&image), gs_fail_memory(error);
        place->warps++;
        place->blocks += warp->block != place->last_block;
        place->last_block = warp->block;
        place->in_syscall = place->in_syscall || warp->in_syscall;
    }
    gs_sass_free(&image);
    return code;
}

gs_code gs_dump_find_places(const gs_dump *dump, gs_dump_places *places, gs_error *error) {
    gs_code code = GS_OK;
    *places = (gs_dump_places){0};
    for (size_t i = 0; i < dump->grids.count && code == GS_OK; i++)
        code = add_grid_places(dump, (uint32_t)i, places, error);
    return code;
}

void gs_dump_places_free(gs_dump_places *places) {
    for (size_t i = 0; i < places->count; i++) {
        free(places->data[i].function);
        free(places->data[i].source);
        free(places->data[i].variable);
    }
    for (size_t i = 0; i < places->kernels.count; i++)
        free(places->kernels.data[i]);
    free(places->kernels.data);
    free(places->data);
    *places = (gs_dump_places){0};
}
