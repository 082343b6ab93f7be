/*
 * plan_report.c: a plan as a table, as gridsmith.plan/1, and as a heat map of the gains.
 */
#include "measure.h"
#include "model/view/view.h"

#include <math.h>
#include <stdlib.h>

static const char *form_name(int32_t form) {
    static const char *const names[GS_SEARCH_FORMS] = {"whole", "half", "quarter"};
    return names[form];
}

/* ---- the table ---- */

static void put_kernels(gs_text *text, const gs_pair_search *search) {
    gs_text_add(text, "kernel          form      threads  registers  shared  blocks/SM  best   alone us\n");
    for (size_t i = 0; i < gs_pair_search_kernels(search); i++) {
        const gs_pair_search_kernel *given = gs_pair_search_given(search, i);
        const gs_found_kernel *found = gs_pair_search_kernel_at(search, i);
        const gs_found_form *form = &found->forms[found->form];
        const gs_shape *shape = &given->forms[found->form];
        if (found->problem[0]) {
            gs_text_add(text, "%-15.60s %s\n", given->name, found->problem);
            continue;
        }
        gs_text_add(text, "%-15.60s %-9s %7d  %9d  %6lld  %9d  %4d ", given->name,
                    given->is_black_box ? "black box" : form_name(found->form), shape->threads, shape->registers,
                    (long long)shape->shared_bytes, form->most, form->best);
        if (found->written_us > 0)
            gs_text_add(text, " %9.1f\n", gs_pair_search_alone_us(search, i));
        else
            gs_text_add(text, "         -\n");
    }
}

static const char *reason_of(const gs_found_pair *pair) {
    return pair->is_done ? pair->reason : "not measured yet";
}

static void put_pair(gs_text *text, const gs_pair_search *search, const gs_found_pair *pair) {
    char names[60];
    snprintf(names, sizeof names, "%.28s + %.28s", gs_pair_search_given(search, (size_t)pair->first)->name,
             gs_pair_search_given(search, (size_t)pair->second)->name);
    gs_text_add(text, "%-32s %-7s", names, pair->is_done ? gs_pair_option_name(pair->option) : "-");
    if (pair->is_measured && pair->is_done)
        gs_text_add(text, " %10.1f %10.1f %6.1f%%  %s\n", pair->serial_us, pair->together_us, 100 * pair->gain,
                    pair->reason);
    else
        gs_text_add(text, "          -          -       -  %s\n", reason_of(pair));
}

void gs_plan_put_table(gs_text *text, const gs_pair_search *search) {
    put_kernels(text, search);
    if (gs_pair_search_pairs(search) == 0)
        return;
    gs_text_add(text, "\npair                             how       serial us together us   gain\n");
    double sum = 0;
    int64_t measured = 0, asked = 0, open = 0;
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(search, i);
        if (gs_pair_search_kernel_at(search, (size_t)pair->first)->problem[0] ||
            gs_pair_search_kernel_at(search, (size_t)pair->second)->problem[0])
            continue; /* reported above */
        put_pair(text, search, pair);
        open += !pair->is_done;
        if (!pair->is_done)
            continue;
        sum += pair->gain;
        measured += pair->is_measured;
        asked += pair->measurements;
    }
    if (measured)
        gs_text_add(text, "\n%lld pair%s, %.1f measurements each; mean gain %.1f%%\n", (long long)measured,
                    measured == 1 ? "" : "s", (double)asked / (double)measured, 100 * sum / (double)measured);
    if (open)
        gs_text_add(text, "\n%lld pair%s not measured yet; with --measurements, the same command continues\n",
                    (long long)open, open == 1 ? " is" : "s are");
}

/* ---- JSON ---- */

static void write_model(gs_writer *writer, const gs_pair_search *search, size_t number) {
    gs_line_model model;
    if (!gs_pair_search_model(search, number, &model)) {
        gs_write_null(writer, "model");
        return;
    }
    gs_write_object(writer, "model");
    gs_write_real(writer, "base_us", model.base, 4);
    gs_write_real(writer, "per_block_us", model.slope, 9);
    gs_write_int(writer, "min_blocks", (int64_t)model.least);
    gs_write_int(writer, "max_blocks", (int64_t)model.most);
    gs_write_real(writer, "residual", model.residual, 5);
    if (model.wave > 0)
        gs_write_int(writer, "wave_blocks", (int64_t)model.wave);
    gs_write_end(writer);
}

static void write_kernel(gs_writer *writer, const gs_pair_search *search, size_t number) {
    const gs_pair_search_kernel *given = gs_pair_search_given(search, number);
    const gs_found_kernel *found = gs_pair_search_kernel_at(search, number);
    const gs_shape *shape = &given->forms[found->form];
    gs_write_object(writer, NULL);
    gs_write_string(writer, "name", given->name);
    gs_write_string(writer, "form", given->is_black_box ? "black box" : form_name(found->form));
    gs_write_int(writer, "blocks", given->blocks);
    gs_write_int(writer, "block_threads", shape->threads);
    gs_write_int(writer, "registers", shape->registers);
    gs_write_int(writer, "shared_bytes", shape->shared_bytes);
    gs_write_int(writer, "workers_per_sm", found->forms[found->form].best);
    double alone_us = gs_pair_search_alone_us(search, number);
    if (alone_us > 0)
        gs_write_real(writer, "alone_us", alone_us, 3);
    else
        gs_write_null(writer, "alone_us");
    if (found->problem[0])
        gs_write_string(writer, "problem", found->problem);
    write_model(writer, search, number);
    gs_write_end(writer);
}

static void write_side(gs_writer *writer, const gs_shape *form, const gs_measure_side *side,
                       const char *const keys[5]) {
    gs_write_string(writer, keys[0], form_name(side->form));
    gs_write_int(writer, keys[1], side->workers);
    gs_write_int(writer, keys[2], form->threads);
    gs_write_int(writer, keys[3], side->registers ? side->registers : form->registers);
    gs_write_int(writer, keys[4], form->shared_bytes);
}

static void write_choice(gs_writer *writer, const gs_pair_search *search, const gs_found_pair *pair) {
    static const char *const keys[2][5] = {
        {"first_form", "first_workers_per_sm", "first_block_threads", "first_registers", "first_shared_bytes"},
        {"second_form", "second_workers_per_sm", "second_block_threads", "second_registers", "second_shared_bytes"}};
    const gs_measure_side *sides = pair->chosen.sides;
    for (int i = 0; i < 2 && pair->option == GS_PAIR_INTRA_SM; i++)
        write_side(writer, &gs_pair_search_given(search, (size_t)sides[i].kernel)->forms[sides[i].form], &sides[i],
                   keys[i]);
    if (pair->option == GS_PAIR_SPLIT)
        gs_write_int(writer, "first_sms", sides[0].sms);
}

static void write_pair(gs_writer *writer, const gs_pair_search *search, const gs_found_pair *pair) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "first", gs_pair_search_given(search, (size_t)pair->first)->name);
    gs_write_string(writer, "second", gs_pair_search_given(search, (size_t)pair->second)->name);
    gs_write_string(writer, "option", gs_pair_option_name(pair->option));
    write_choice(writer, search, pair);
    if (pair->is_measured) {
        gs_write_int(writer, "first_repeats", pair->repeats[0]);
        gs_write_int(writer, "second_repeats", pair->repeats[1]);
        gs_write_real(writer, "first_us", gs_pair_search_alone_us(search, (size_t)pair->first) * pair->repeats[0], 3);
        gs_write_real(writer, "second_us", gs_pair_search_alone_us(search, (size_t)pair->second) * pair->repeats[1], 3);
        gs_write_real(writer, "turns_us", pair->serial_us, 3);
        gs_write_real(writer, "together_us", pair->together_us, 3);
        gs_write_real(writer, "gain", pair->gain, 5);
        gs_write_int(writer, "measurements", pair->measurements);
    }
    gs_write_string(writer, "reason", reason_of(pair));
    gs_write_array(writer, "points");
    for (int32_t i = 0; i < pair->point_count; i++) {
        gs_write_object(writer, NULL);
        gs_write_real(writer, "ratio", pair->points[i].ratio, 5);
        gs_write_real(writer, "us", pair->points[i].us, 3);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_end(writer);
}

void gs_plan_put_json(gs_text *text, const gs_pair_search *search) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.plan/1");
    gs_write_string(&writer, "gpu", gs_pair_search_gpu(search)->name);
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < gs_pair_search_kernels(search); i++)
        write_kernel(&writer, search, i);
    gs_write_end(&writer);
    gs_write_array(&writer, "pairs");
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++)
        write_pair(&writer, search, gs_pair_search_pair_at(search, i));
    gs_write_finish(&writer);
}

/* ---- the heat map ---- */

static void fill_cells(const gs_pair_search *search, gs_heat_cell *cells) {
    size_t count = gs_pair_search_kernels(search);
    for (size_t i = 0; i < count * count; i++)
        cells[i].percent = NAN;
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(search, i);
        bool is_known = pair->is_done && pair->is_measured;
        gs_heat_cell cell = {.percent = is_known ? 100 * pair->gain : NAN, .words = reason_of(pair)};
        cells[(size_t)pair->first * count + (size_t)pair->second] = cell;
        cells[(size_t)pair->second * count + (size_t)pair->first] = cell;
    }
}

gs_code gs_plan_put_svg(gs_text *text, const gs_pair_search *search, gs_error *error) {
    size_t count = gs_pair_search_kernels(search);
    gs_heat_cell *cells = calloc(count * count + 1, sizeof *cells);
    const char **names = calloc(count + 1, sizeof *names);
    const gs_gpu *gpu = gs_pair_search_gpu(search);
    if (cells && names) {
        fill_cells(search, cells);
        for (size_t i = 0; i < count; i++)
            names[i] = gs_pair_search_given(search, i)->name;
        gs_heat_map map = {.title = gpu->title ? gpu->title : gpu->name,
                           .summary =
                               "time saved by running two kernels together, in percent of their time in sequence",
                           .names = names,
                           .count = count,
                           .cells = cells};
        gs_put_heat_map(text, &map);
    }
    gs_code code = cells && names && !text->failed ? GS_OK : gs_fail_memory(error);
    free(cells);
    free(names);
    return code;
}
