/*
 * cubin.c: machine code, for the fake driver.
 *
 * It is not run. A kernel named `steps_500` has one parameter, a pointer to a counter for each block; a block takes 500
 * us, in which it counts itself. If there is a guard in front of the code, what it decides is decided here, block by
 * block (src/kernels/sass/sass.h).
 */
#include "fake.h"

#include "kernels/sass/sass.h"

enum { INSTRUCTION = 2 /* numbers */ };

bool fake_is_cubin(const void *image) {
    return memcmp(image, "\177ELF", 4) == 0;
}

/* Whether the code begins with the guard of its architecture, whatever the offset of its parameter is. */
static bool has_guard(const gs_sass_image *image, const gs_text *code) {
    const gs_guard *guard = gs_guard_find(gs_sass_architecture(image));
    bool is_same = guard && code->count > 16 * guard->count;
    for (uint32_t i = 0; is_same && i < INSTRUCTION * guard->count; i++) {
        bool is_site = false;
        for (uint32_t k = 0; k < guard->site_count; k++)
            is_site |= INSTRUCTION * guard->sites[k].instruction == i;
        is_same = is_site || gs_sass_long(code, 8 * i) == guard->code[i];
    }
    return is_same;
}

int fake_cubin_read(const void *bytes, struct cu_function *functions, int most) {
    static const char prefix[] = ".text.";
    gs_sass_image image;
    int count = 0;
    if (gs_sass_read(&image, bytes, gs_fatbin_bytes(bytes), NULL) != GS_OK) {
        gs_sass_free(&image);
        return 0;
    }
    for (size_t i = 0; i < image.sections.count && count < most; i++) {
        const gs_sass_section *section = &image.sections.data[i];
        if (strncmp(section->name, prefix, sizeof prefix - 1) != 0)
            continue;
        struct cu_function *made = &functions[count++];
        *made = (struct cu_function){
            .kind = FAKE_OF_CUBIN, .registers = 32, .is_guarded = has_guard(&image, &section->bytes)};
        snprintf(made->name, sizeof made->name, "%s", section->name + sizeof prefix - 1);
        sscanf(made->name, "steps_%llu", (unsigned long long *)&made->us);
    }
    gs_sass_free(&image);
    return count;
}

int fake_cubin_parameter(cu_function function, size_t number, size_t *offset, size_t *bytes) {
    if (number > (function->is_guarded ? 1 : 0))
        return FAKE_INVALID_VALUE;
    *offset = number ? sizeof(uint64_t) : 0;
    *bytes = number ? sizeof(gs_guard_parameter) : sizeof(uint64_t);
    return FAKE_OK;
}

/* ---- the guard ---- */

static bool may_run(const gs_guard_parameter *guard, uint32_t b) {
    gs_guard_control *before = (gs_guard_control *)(uintptr_t)guard->control, *own = before + 1;
    uint32_t base = before->base + (before->word & ~GS_GUARD_CLOSED), r = b - base;
    if (b == 0)
        own->base = base;
    if (b < base)
        return false;
    uint32_t claimed = own->word & ~GS_GUARD_CLOSED;
    if (own->word & GS_GUARD_CLOSED || (claimed > r && r & guard->mask))
        return claimed > r;
    uint64_t claim = (r | (uint64_t)guard->mask) + guard->mask + 2;
    if (claimed >= claim)
        return true;
    own->word = (uint32_t)claim;
    if (__atomic_load_n((const uint32_t *)(uintptr_t)guard->stop, __ATOMIC_RELAXED)) {
        own->word |= GS_GUARD_CLOSED;
        fake.stops++;
    }
    return true;
}

uint64_t fake_cubin_run(const fake_step *step) {
    const fake_blocks *blocks = &step->blocks;
    uint64_t waves = 0;
    for (uint32_t b = 0; b < blocks->count;) {
        uint32_t first = b, run = 0;
        for (; b < blocks->count && run < blocks->resident; b++)
            if (!blocks->is_guarded || may_run(&blocks->guard, b)) {
                __atomic_fetch_add(blocks->counters + b, 1, __ATOMIC_RELAXED);
                run++;
            }
        if (run && b > first)
            fake_sleep_us(blocks->us);
        waves += run > 0;
    }
    return waves * blocks->us;
}
