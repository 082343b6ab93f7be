/*
 * body_view.c: the bound of a compiled kernel: what it consists of, by source line, and what would lower it.
 */
#include "view.h"

#include <inttypes.h>

enum { MOST_ROWS = 20, MOST_RELIEFS = 5 };

static const char *const sources[] = {[GS_ROUNDS_OF_CODE] = "code",
                                      [GS_ROUNDS_GIVEN] = "given",
                                      [GS_ROUNDS_OF_INPUT] = "input",
                                      [GS_ROUNDS_OF_GROUPS] = "groups"};

static const char *const kinds[GS_LATENCY_KINDS] = {
    [GS_LATENCY_ALONE] = "alone",   [GS_LATENCY_ALONE_REPEATED] = "alone-repeated",
    [GS_LATENCY_KEPT] = "cached",   [GS_LATENCY_KEPT_REPEATED] = "cached-repeated",
    [GS_LATENCY_BESIDE] = "beside", [GS_LATENCY_BESIDE_REPEATED] = "beside-repeated",
    [GS_LATENCY_LOADED] = "loaded", [GS_LATENCY_REPEATED] = "repeated"};

static bool is_loop(const gs_body_part *part) {
    return part->kind == GS_PART_LOOP && part->source != GS_ROUNDS_OF_GROUPS;
}

void gs_put_body_place(gs_text *text, uint32_t line, uint32_t offset) {
    if (line)
        gs_text_add(text, "line %" PRIu32, line);
    else
        gs_text_add(text, "at 0x%" PRIx32, offset);
}

static void put_term(gs_text *text, const char *what, int64_t cycles) {
    if (cycles)
        gs_text_add(text, "  %-44s %12" PRId64 "\n", what, cycles);
}

static void put_terms(gs_text *text, const gs_body_answer *answer) {
    const gs_body_bound *bound = &answer->bound;
    char words[100];
    snprintf(words, sizeof words, "%" PRId64 " block%s in a row, each a warp's path of %" PRId64, bound->chain_blocks,
             bound->chain_blocks == 1 ? "" : "s", bound->path_cycles);
    put_term(text, words, bound->chain_blocks * bound->path_cycles);
    put_term(text, "accesses that take longer than most", bound->burst_cycles);
    put_term(text, "starting and ending blocks", bound->block_cycles);
    put_term(text, "other warps of the partition go first", bound->issue_cycles);
    for (size_t i = 0; i < answer->machine->units.count; i++) {
        snprintf(words, sizeof words, "waiting for %.60s", answer->machine->units.data[i].name);
        put_term(text, words, bound->unit_cycles[i]);
    }
    put_term(text, "fetching instructions", bound->fetch_cycles);
}

static void put_rows(gs_text *text, const gs_body_answer *answer) {
    const gs_body_shares *shares = &answer->shares;
    size_t count = shares->rows.count < MOST_ROWS ? shares->rows.count : MOST_ROWS;
    gs_text_add(text, "%-14s %14s", answer->body->file ? answer->body->file : "code", "instructions");
    gs_text_add(text, answer->machine ? " %16s\n" : "%s\n", answer->machine ? "cycles less" : "");
    for (size_t i = 0; i < count; i++) {
        gs_text place = {0};
        gs_put_body_place(&place, shares->rows.data[i].line, shares->rows.data[i].offset);
        gs_text_add(text, "%-14s %14" PRId64, place.data ? place.data : "", shares->rows.data[i].instructions);
        if (answer->machine && shares->rows.data[i].saved_cycles != GS_NOT_KNOWN)
            gs_text_add(text, " %16" PRId64, shares->rows.data[i].saved_cycles);
        gs_text_add(text, "\n");
        text->failed = text->failed || place.failed;
        gs_text_free(&place);
    }
    if (count < shares->rows.count)
        gs_text_add(text, "... %zu more; --csv has all\n", shares->rows.count - count);
}

static void put_reliefs(gs_text *text, const gs_body_answer *answer) {
    const gs_body_shares *shares = &answer->shares;
    if (shares->reliefs.count)
        gs_text_add(text, "what would lower it:\n");
    for (size_t i = 0; i < shares->reliefs.count && i < MOST_RELIEFS; i++) {
        const gs_body_part *part = &answer->body->parts.data[shares->reliefs.data[i].part];
        gs_text_add(text, "  ");
        gs_put_body_place(text, part->line, part->offset);
        gs_text_add(text, ": %" PRId64 " cycles less %s\n", shares->reliefs.data[i].saved_cycles,
                    is_loop(part) ? "for each round less of the loop" : "if all threads of a warp went the same way");
    }
}

static void put_loops(gs_text *text, const gs_body *body) {
    bool is_first = true;
    for (size_t i = 0; i < body->parts.count; i++) {
        const gs_body_part *part = &body->parts.data[i];
        if (!is_loop(part))
            continue;
        gs_text_add(text, "%s", is_first ? "loops: " : ", ");
        gs_put_body_place(text, part->line, part->offset);
        gs_text_add(text, " %" PRId64, part->times);
        if (part->source == GS_ROUNDS_GIVEN)
            gs_text_add(text, " (%" PRId64 " given, and its test once more)", part->times - 1);
        else if (part->source == GS_ROUNDS_OF_INPUT)
            gs_text_add(text, " (of this input)");
        is_first = false;
    }
    gs_text_add(text, is_first ? "" : "\n");
}

static void put_times(gs_text *text, const char *what, int64_t alone_ns, int64_t beside_ns) {
    gs_text_add(text, "%-34s %12.3f us, %.3f us beside other programs\n", what, (double)alone_ns / 1e3,
                (double)beside_ns / 1e3);
}

void gs_put_body_bound(gs_text *text, const gs_body_answer *answer) {
    const gs_body_bound *bound = &answer->bound;
    gs_text_add(text, "%s on %s: %" PRId64 " blocks of %" PRId32 " threads\n", answer->body->kernel, answer->gpu->name,
                answer->blocks, answer->shape.threads);
    put_loops(text, answer->body);
    if (answer->machine) {
        gs_text_add(text, "done after %" PRId64 " cycles at the latest, %" PRId64 " beside other programs\n",
                    bound->cycles, answer->beside.cycles);
        put_times(text, "its first block to its last:", gs_body_kernel_ns(bound), gs_body_kernel_ns(&answer->beside));
        put_times(text, "its launch, as measured:", bound->launch_ns, answer->beside.launch_ns);
        put_times(text, "both, from the launch to its end:", bound->nanoseconds, answer->beside.nanoseconds);
        put_terms(text, answer);
        gs_text_add(text, "latencies: %s\n", answer->machine->found);
    }
    if (bound->kind == GS_LATENCY_KEPT || bound->kind == GS_LATENCY_KEPT_REPEATED)
        gs_text_add(text, "assumed: the L2 has the buffers of the launch when the kernel starts\n");
    if (answer->is_for_input)
        gs_text_add(text,
                    "this is for one input: rounds, transactions, and the code that is reached, are those of a run on "
                    "the CPU\n");
    put_rows(text, answer);
    put_reliefs(text, answer);
}

/* ---- JSON and CSV ---- */

static void write_bound(gs_writer *writer, const char *key, const gs_machine *machine, const gs_body_bound *bound) {
    gs_write_object(writer, key);
    gs_write_int(writer, "cycles", bound->cycles);
    gs_write_int(writer, "nanoseconds", bound->nanoseconds);
    gs_write_int(writer, "kernel_ns", gs_body_kernel_ns(bound));
    gs_write_int(writer, "launch_ns", bound->launch_ns);
    gs_write_string(writer, "kind", kinds[bound->kind]);
    gs_write_int(writer, "path_cycles", bound->path_cycles);
    gs_write_int(writer, "burst_cycles", bound->burst_cycles);
    gs_write_int(writer, "chain_blocks", bound->chain_blocks);
    gs_write_int(writer, "block_cycles", bound->block_cycles);
    gs_write_int(writer, "issue_cycles", bound->issue_cycles);
    gs_write_int(writer, "fetch_cycles", bound->fetch_cycles);
    gs_write_object(writer, "unit_cycles");
    for (size_t i = 0; i < machine->units.count; i++)
        gs_write_int(writer, machine->units.data[i].name, bound->unit_cycles[i]);
    gs_write_end(writer);
    gs_write_end(writer);
}

static void write_place(gs_writer *writer, uint32_t line, uint32_t offset) {
    if (line)
        gs_write_int(writer, "line", line);
    gs_write_int(writer, "offset", offset);
}

static void write_loops(gs_writer *writer, const gs_body *body) {
    gs_write_array(writer, "loops");
    for (size_t i = 0; i < body->parts.count; i++) {
        const gs_body_part *part = &body->parts.data[i];
        if (!is_loop(part))
            continue;
        gs_write_object(writer, NULL);
        write_place(writer, part->line, part->offset);
        gs_write_int(writer, "rounds", part->times);
        gs_write_string(writer, "source", sources[part->source]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_reliefs(gs_writer *writer, const gs_body_answer *answer) {
    gs_write_array(writer, "reliefs");
    for (size_t i = 0; i < answer->shares.reliefs.count; i++) {
        const gs_body_part *part = &answer->body->parts.data[answer->shares.reliefs.data[i].part];
        gs_write_object(writer, NULL);
        write_place(writer, part->line, part->offset);
        gs_write_string(writer, "change", is_loop(part) ? "one round less" : "uniform");
        gs_write_int(writer, "saved_cycles", answer->shares.reliefs.data[i].saved_cycles);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_classes(gs_writer *writer, const gs_body_answer *answer) {
    gs_write_object(writer, "instructions");
    for (size_t i = 0; i < answer->body->classes.count; i++)
        gs_write_int(writer, answer->body->classes.data[i], answer->of_class[i]);
    gs_write_end(writer);
}

void gs_put_body_bound_json(gs_text *text, const gs_body_answer *answer) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.kernel-bound/1");
    gs_write_string(&writer, "kernel", answer->body->kernel);
    gs_write_string(&writer, "gpu", answer->gpu->name);
    gs_write_optional(&writer, "file", answer->body->file);
    gs_write_int(&writer, "blocks", answer->blocks);
    gs_write_int(&writer, "threads", answer->shape.threads);
    gs_write_bool(&writer, "is_for_input", answer->is_for_input);
    if (answer->machine) {
        write_bound(&writer, "alone", answer->machine, &answer->bound);
        write_bound(&writer, "beside", answer->machine, &answer->beside);
        gs_write_string(&writer, "latencies", answer->machine->found);
    }
    write_classes(&writer, answer);
    write_loops(&writer, answer->body);
    gs_write_array(&writer, "rows");
    for (size_t i = 0; i < answer->shares.rows.count; i++) {
        const gs_body_row *row = &answer->shares.rows.data[i];
        gs_write_object(&writer, NULL);
        write_place(&writer, row->line, row->offset);
        gs_write_int(&writer, "instructions", row->instructions);
        if (row->saved_cycles != GS_NOT_KNOWN)
            gs_write_int(&writer, "saved_cycles", row->saved_cycles);
        gs_write_end(&writer);
    }
    gs_write_end(&writer);
    write_reliefs(&writer, answer);
    gs_write_finish(&writer);
}

void gs_put_body_bound_csv(gs_text *text, const gs_body_answer *answer) {
    gs_text_add(text, "line,offset,instructions,saved_cycles,kernel_ns,launch_ns\n");
    for (size_t i = 0; i < answer->shares.rows.count; i++) {
        const gs_body_row *row = &answer->shares.rows.data[i];
        if (row->line)
            gs_text_add(text, "%" PRIu32, row->line);
        gs_text_add(text, ",%" PRIu32 ",%" PRId64 ",", row->offset, row->instructions);
        if (row->saved_cycles != GS_NOT_KNOWN)
            gs_text_add(text, "%" PRId64, row->saved_cycles);
        if (answer->machine)
            gs_text_add(text, ",%" PRId64 ",%" PRId64 "\n", gs_body_kernel_ns(&answer->bound), answer->bound.launch_ns);
        else
            gs_text_add(text, ",,\n");
    }
}
