/*
 * recorded_ways.c: reads what `gridsmith plan --all` has measured. The first lines of the files explain their columns.
 */
#include "recorded_ways.h"

#include <stdlib.h>

static int32_t kernel_named(const struct recorded *recorded, const char *name) {
    for (size_t i = 0; i < recorded->kernels; i++)
        if (strcmp(recorded->given[i].name, name) == 0)
            return (int32_t)i;
    return 0; /* "-": there is no second kernel */
}

static void read_kernel(struct recorded *recorded, const char *line) {
    gs_pair_search_kernel *given = &recorded->given[recorded->kernels];
    int threads, registers;
    long shared, blocks;
    assert_true(recorded->kernels < RECORDED_KERNELS);
    assert_int_equal(sscanf(line, "kernel %31s %d %d %ld %ld", given->name, &threads, &registers, &shared, &blocks), 5);
    given->forms[0] = gs_shape_of(threads, registers, shared);
    given->has_form[0] = true;
    given->blocks = blocks;
    recorded->kernels++;
}

static void read_row(struct recorded *recorded, const char *line) {
    struct recorded_row *row = &recorded->rows[recorded->count];
    gs_measure_side *sides = row->measurement.sides;
    char what[16], names[2][32];
    assert_true(recorded->count < RECORDED_ROWS);
    assert_int_equal(sscanf(line, "%15s %31s %d %d %d %d %31s %d %d %d %d %lf %lf %lf", what, names[0],
                            &sides[0].workers, &sides[0].registers, &sides[0].sms, &sides[0].repeats, names[1],
                            &sides[1].workers, &sides[1].registers, &sides[1].sms, &sides[1].repeats, &row->result.us,
                            &row->result.side_us[0], &row->result.side_us[1]),
                     14);
    while (strcmp(gs_measure_name(row->measurement.measure), what) != 0 && row->measurement.measure < GS_MEASURE_SPLIT)
        row->measurement.measure++;
    for (int i = 0; i < 2; i++)
        sides[i].kernel = kernel_named(recorded, names[i]);
    row->result.is_failed = !(row->result.us > 0);
    recorded->count++;
}

struct recorded *recorded_read(const char *path, int pair) {
    struct recorded *recorded = calloc(1, sizeof *recorded);
    FILE *file = fopen(path, "r");
    int at = 0;
    char line[200];
    assert_non_null(recorded);
    assert_non_null(file);
    while (at <= pair && fgets(line, sizeof line, file))
        if (strncmp(line, "pair ", 5) == 0)
            at++;
        else if (at == pair && strncmp(line, "kernel ", 7) == 0)
            read_kernel(recorded, line);
        else if (at == pair && line[0] != '#')
            read_row(recorded, line);
    fclose(file);
    if (at >= pair)
        return recorded;
    free(recorded);
    return NULL;
}
