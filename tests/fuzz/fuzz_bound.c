/*
 * fuzz_bound.c: any bytes as a program, and as a measurement. What is accepted is written and read again; a small
 * program is searched, and its proven bound must hold.
 */
#include "fuzz.h"

#include "model/bound/bound.h"

#include <string.h>

static gs_program *read_program(const char *bytes, size_t count) {
    gs_error error;
    gs_input *input = gs_input_memory("fuzz", bytes, count, NULL);
    gs_program *program = gs_program_input(input, &error);
    gs_input_close(input);
    return program;
}

static void write_and_read(const gs_program *program) {
    gs_text once = {0}, twice = {0};
    gs_program_text(program, &once);
    gs_program *again = read_program(once.data, once.count);
    require(again != NULL);
    gs_program_text(again, &twice);
    require(strcmp(once.data, twice.data) == 0);
    gs_program_free(again);
    gs_text_free(&once);
    gs_text_free(&twice);
}

static void bound_it(const gs_program *program, int64_t warps) {
    enum { SMALL = 60 };
    gs_bound bound;
    gs_bound_options options = {.search = true, .memory_bytes = 4 << 20};
    if (gs_bound_of(program, warps, NULL, &bound, NULL) != GS_OK)
        return;
    require(bound.proven_cycles > 0);
    if (bound.proven_cycles > SMALL || warps > 4)
        return;
    require(gs_bound_of(program, warps, &options, &bound, NULL) == GS_OK);
    require(bound.exact_cycles <= bound.proven_cycles && bound.exact_fair_cycles <= bound.proven_cycles);
    require(bound.exact_cycles == GS_NOT_KNOWN || bound.exact_fair_cycles <= bound.exact_cycles);
}

static void read_measured(const char *bytes, size_t count) {
    gs_error error;
    gs_measured measured;
    gs_input *input = gs_input_memory("fuzz", bytes, count, NULL);
    if (gs_measured_input(input, &measured, &error) == GS_OK) {
        gs_text text = {0};
        gs_measured_text(&measured, &text);
        gs_text_free(&text);
        gs_measured_clear(&measured);
    }
    gs_input_close(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_program *program = read_program((const char *)bytes, count);
    read_measured((const char *)bytes, count);
    if (!program)
        return 0;
    write_and_read(program);
    for (int64_t warps = 1; warps <= 1000000; warps *= 3)
        bound_it(program, warps);
    gs_program_free(program);
    return 0;
}
