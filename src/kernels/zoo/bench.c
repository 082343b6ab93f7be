/*
 * bench.c: measures the cost of the forms of a kernel in one run.
 *
 * The original, the persistent and the confined form run alternately, so that changes of the temperature or of the
 * clock affect all of them. They run on the same buffers, because addresses matter, too. A reshaped kernel is compiled
 * as for use, with the register limit of gs_register_limit.
 */
#include "play.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 5 }; /* successive repetitions of a form */

struct bench {
    gs_zoo_instance *instance;
    gs_executor *executor;
    int architecture;
    gs_zoo_form forms[GS_ZOO_BENCHED];
    gs_zoo_part parts[GS_ZOO_BENCHED][GS_ZOO_KINDS];
    uint64_t *times[GS_ZOO_BENCHED]; /* `repeat` each */
    uint32_t repeat;
    uint64_t number; /* identifies its buffers */
};

/* ---- programs ---- */

static gs_code compile_part(struct bench *bench, int form, size_t kind, gs_error *error) {
    gs_zoo_part *part = &bench->parts[form][kind];
    gs_code code = gs_zoo_part_compile(part, bench->executor, bench->instance->kinds[kind].source, error);
    return code == GS_OK ? gs_zoo_part_cost(part, bench->executor, bench->architecture, bench->instance, kind, error)
                         : code;
}

/* With the register limit, as for use. */
static gs_code compile_reshaped(struct bench *bench, int form, size_t kind, gs_error *error) {
    gs_zoo_part *part = &bench->parts[form][kind];
    gs_code code = compile_part(bench, form, kind, error);
    if (code != GS_OK)
        return code;
    gs_zoo_form limited = bench->forms[form];
    limited.max_registers =
        gs_register_limit(bench->parts[GS_FORM_ORIGINAL][kind].cost.registers, part->cost.registers);
    if (!limited.max_registers)
        return GS_OK;
    gs_zoo_part_free(part);
    code = gs_zoo_part_make(part, bench->instance, kind, &limited, 0, error);
    return code == GS_OK ? compile_part(bench, form, kind, error) : code;
}

static gs_code compile_all(struct bench *bench, bool is_unlimited, gs_error *error) {
    gs_code code = GS_OK;
    for (int form = 0; form < GS_ZOO_BENCHED && code == GS_OK; form++)
        for (size_t kind = 0; kind < bench->instance->kind_count && code == GS_OK; kind++) {
            code = gs_zoo_part_make(&bench->parts[form][kind], bench->instance, kind, &bench->forms[form], 0, error);
            bool is_plain = form == GS_FORM_ORIGINAL || is_unlimited;
            if (code == GS_OK)
                code = (is_plain ? compile_part : compile_reshaped)(bench, form, kind, error);
        }
    return code;
}

/* ---- measuring ---- */

/* Runs a form `repeat` times and stores the times in `times`; if that is NULL, compares the results instead. */
static gs_code take_turn(struct bench *bench, int form, uint32_t repeat, uint64_t *times, gs_error *error) {
    gs_zoo_pass pass = {.instance = bench->instance,
                        .parts = bench->parts[form],
                        .executor = bench->executor,
                        .form = &bench->forms[form],
                        .repeat = repeat,
                        .elapsed_ns = times,
                        .kept_as = bench->instance->kernel->changes_inputs ? 0 : bench->number};
    gs_code code = gs_zoo_pass_run(&pass, error);
    if (code == GS_OK && !times && !bench->instance->buffers[0].expected)
        gs_zoo_pass_keep(&pass);
    else if (code == GS_OK && !times && !gs_zoo_pass_is_right(&pass, error))
        code = GS_E_KERNEL;
    gs_zoo_pass_free(&pass);
    return code;
}

static gs_code take_turns(struct bench *bench, gs_error *error) {
    uint32_t at_once = bench->instance->kernel->changes_inputs ? 1 : AT_ONCE;
    gs_code code = GS_OK;
    for (int form = 0; form < GS_ZOO_BENCHED && code == GS_OK; form++)
        code = take_turn(bench, form, 1, NULL, error);
    for (uint32_t done = 0, round = 0; done < bench->repeat && code == GS_OK; done += at_once, round++)
        for (uint32_t i = 0; i < GS_ZOO_BENCHED && code == GS_OK; i++) {
            int form = (int)((round + i) % GS_ZOO_BENCHED);
            uint32_t count = (uint32_t)gs_min(at_once, bench->repeat - done);
            code = take_turn(bench, form, count, bench->times[form] + done, error);
        }
    return code;
}

static void sum_up(struct bench *bench, gs_zoo_bench *result) {
    for (int form = 0; form < GS_ZOO_BENCHED; form++) {
        qsort(bench->times[form], bench->repeat, sizeof *bench->times[form], gs_compare_int64);
        result->median_ns[form] = bench->times[form][bench->repeat / 2];
        result->costs[form] = bench->parts[form][0].cost;
        result->max_registers[form] = bench->parts[form][0].max_registers;
        if (result->median_ns[0])
            result->cost_percent[form] = 100.0 * ((double)result->median_ns[form] / (double)result->median_ns[0] - 1.0);
    }
    result->launches = (uint32_t)bench->instance->launches.count;
}

gs_code gs_zoo_measure(gs_zoo_instance *instance, gs_executor *executor, int architecture, const gs_zoo_form *form,
                       uint32_t repeat, bool is_unlimited, gs_zoo_bench *result, gs_error *error) {
    struct bench bench = {.instance = instance,
                          .executor = executor,
                          .architecture = architecture,
                          .repeat = repeat,
                          .number = (uint64_t)gs_now_ns()};
    gs_code code = GS_OK;
    *result = (gs_zoo_bench){.launches = 0};
    for (int i = 0; i < GS_ZOO_BENCHED; i++) {
        bench.forms[i] = *form;
        bench.forms[i].form = (enum gs_form)i;
        bench.times[i] = calloc(repeat, sizeof *bench.times[i]);
        code = bench.times[i] ? code : gs_fail_memory(error);
    }
    if (code == GS_OK)
        code = compile_all(&bench, is_unlimited, error);
    if (code == GS_OK)
        code = take_turns(&bench, error);
    if (code == GS_OK)
        sum_up(&bench, result);
    for (int i = 0; i < GS_ZOO_BENCHED; i++) {
        free(bench.times[i]);
        for (size_t kind = 0; kind < GS_ZOO_KINDS; kind++)
            gs_zoo_part_free(&bench.parts[i][kind]);
    }
    return code;
}
