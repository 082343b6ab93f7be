/*
 * report.c: a report on which kernels of a file can be reshaped (gridsmith.reshape/1), and the names of kernels and
 * forms.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

static bool is_first_definition(const gs_code_map *map, size_t number) {
    const gs_kernel_found *kernel = &map->kernels.data[number];
    const gs_token *name = &map->source->tokens.data[kernel->name];
    for (size_t i = 0; i < number; i++) {
        const gs_kernel_found *other = &map->kernels.data[i];
        const gs_token *its = &map->source->tokens.data[other->name];
        if (other->body != GS_NO_TOKEN && its->length == name->length &&
            memcmp(map->source->text + its->at, map->source->text + name->at, name->length) == 0)
            return false;
    }
    return kernel->body != GS_NO_TOKEN;
}

static gs_code report_kernel(const gs_code_map *map, const gs_kernel_found *kernel, const gs_reshape_options *options,
                             gs_report_counts *counts, gs_writer *writer, gs_error *error) {
    const gs_token *token = &map->source->tokens.data[kernel->name];
    gs_error reason = {.code = GS_OK};
    gs_text output = {0}, name = {0};
    gs_text_put(&name, map->source->text + token->at, token->length);
    gs_code code = gs_reshape(map->source, name.data ? name.data : "", options, &output, &reason);
    gs_error place = {.code = GS_OK};
    gs_error_place(&place, map->source->text, map->source->size, token->at, 1, 1);
    gs_write_object(writer, NULL);
    gs_write_string(writer, "name", name.data ? name.data : "");
    gs_write_int(writer, "line", place.line);
    gs_write_int(writer, "column", place.column);
    gs_write_bool(writer, "accepted", code == GS_OK);
    if (code != GS_OK) {
        gs_write_string(writer, "reason", reason.message);
        gs_write_int(writer, "reason_line", reason.line);
        gs_write_int(writer, "reason_column", reason.column);
    }
    gs_write_end(writer);
    counts->kernels++;
    counts->accepted += code == GS_OK;
    gs_text_free(&output);
    gs_text_free(&name);
    return code == GS_E_MEMORY || writer->text->failed ? gs_fail_memory(error) : GS_OK;
}

gs_code gs_reshape_report(const gs_source *source, const gs_reshape_options *options, gs_report_counts *counts,
                          gs_text *into, gs_error *error) {
    gs_code_map map;
    gs_code code = gs_map_read(&map, source, error);
    if (code != GS_OK)
        return code;
    *counts = (gs_report_counts){0};
    gs_writer writer = gs_writer_to(into);
    gs_write_document(&writer, "gridsmith.reshape/1");
    gs_write_string(&writer, "file", source->name);
    gs_write_string(&writer, "form", gs_form_name(options->form));
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < map.kernels.count && code == GS_OK; i++)
        if (is_first_definition(&map, i))
            code = report_kernel(&map, &map.kernels.data[i], options, counts, &writer, error);
    gs_write_finish(&writer);
    gs_map_free(&map);
    return code;
}

/* ---- names ---- */

/* Whether `template` precedes the kernel in its statement. */
static bool is_template(const gs_source *source, const gs_kernel_found *kernel) {
    for (uint32_t at = kernel->global; at-- > 0;) {
        const gs_token *token = &source->tokens.data[at];
        if (token->directive != GS_NO_TOKEN)
            continue;
        if (token->mark == ';' || token->mark == '{' || token->mark == '}')
            return false;
        if (gs_token_is(source, at, "template"))
            return true;
    }
    return false;
}

/* Appends the namespaces around a `{` and its own, each followed by "::". */
static void put_spaces(const gs_source *source, uint32_t open, gs_text *into) {
    if (open == GS_NO_TOKEN)
        return;
    put_spaces(source, source->tokens.data[open].within, into);
    const gs_token *before = open > 1 ? &source->tokens.data[open - 1] : NULL;
    if (before && before->kind == GS_TOKEN_NAME && gs_token_is(source, open - 2, "namespace"))
        gs_text_add(into, "%.*s::", (int)before->length, source->text + before->at);
}

size_t gs_source_kernels(const gs_source *source, char (*names)[GS_JOB_NAME], size_t most, gs_error *error) {
    gs_code_map map;
    size_t count = 0;
    if (gs_map_read(&map, source, error) != GS_OK)
        return SIZE_MAX;
    for (size_t i = 0; i < map.kernels.count && count != SIZE_MAX; i++) {
        const gs_kernel_found *kernel = &map.kernels.data[i];
        const gs_token *token = &source->tokens.data[kernel->name];
        if (!is_first_definition(&map, i) || is_template(source, kernel))
            continue;
        gs_text name = {0};
        put_spaces(source, token->within, &name);
        gs_text_put(&name, source->text + token->at, token->length);
        if (name.failed || name.count >= GS_JOB_NAME) {
            gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
            count = SIZE_MAX;
        } else if (count++ < most) {
            memcpy(names[count - 1], name.data, name.count + 1);
        }
        gs_text_free(&name);
    }
    gs_map_free(&map);
    return count;
}

/* ---- forms ---- */

static const char *const forms[GS_FORMS] = {"original", "persistent", "confined", "elastic", "registers"};

const char *gs_form_name(enum gs_form form) {
    return forms[form];
}

bool gs_form_find(const char *name, enum gs_form *form) {
    for (int i = GS_FORM_PERSISTENT; i < GS_FORMS; i++)
        if (strcmp(name, forms[i]) == 0) {
            *form = (enum gs_form)i;
            return true;
        }
    return false;
}
