/*
 * instance.c: a kernel of the zoo at one size: its buffers, its launches, and the results of the reference.
 *
 * Inputs are made once and stay in `data`; a run works on copies. The reference works on another copy, `expected`.
 */
#include "zoo_kernels.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- all kernels ---- */

static const gs_zoo_kernel *const kernels[] = {
    &gs_zoo_bfs,       &gs_zoo_cp,    &gs_zoo_cutcp, &gs_zoo_fft,           &gs_zoo_histo,    &gs_zoo_img,
    &gs_zoo_lbm,       &gs_zoo_mrif,  &gs_zoo_mriq,  &gs_zoo_pns,           &gs_zoo_regtil,   &gs_zoo_sgemm,
    &gs_zoo_spmv,      &gs_zoo_stenc, &gs_zoo_tpacf, &gs_zoo_black_scholes, &gs_zoo_gaussian, &gs_zoo_quasirandom,
    &gs_zoo_transpose, &gs_zoo_tgemm, &gs_zoo_conv,  &gs_zoo_wgemm};

const gs_zoo_kernel *gs_zoo_at(size_t number) {
    return number < GS_COUNT(kernels) ? kernels[number] : NULL;
}

const gs_zoo_kernel *gs_zoo_find(const char *name) {
    for (size_t i = 0; i < GS_COUNT(kernels); i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return kernels[i];
    return NULL;
}

const gs_zoo_size *gs_zoo_size_find(const gs_zoo_kernel *kernel, const char *name) {
    for (size_t i = 0; i < GS_ZOO_SIZES; i++)
        if (strcmp(kernel->sizes[i].name, name) == 0)
            return &kernel->sizes[i];
    return kernel->load.name && strcmp(kernel->load.name, name) == 0 ? &kernel->load : NULL;
}

const gs_zoo_size *gs_zoo_size_for_loads(const gs_zoo_kernel *kernel) {
    return kernel->load.name ? &kernel->load : gs_zoo_size_find(kernel, "large");
}

bool gs_zoo_size_is_large(const gs_zoo_size *size) {
    return strcmp(size->name, "large") == 0 || strcmp(size->name, "load") == 0;
}

/* ---- making an instance ---- */

int gs_zoo_buffer_add(gs_zoo_instance *instance, gs_scalar type, size_t count, double low, double high) {
    if (instance->buffer_count == GS_ZOO_BUFFERS) {
        instance->failed = true;
        return 0;
    }
    instance->buffers[instance->buffer_count] = (gs_zoo_buffer){.type = type, .count = count, .low = low, .high = high};
    return (int)instance->buffer_count++;
}

int gs_zoo_buffer_zero(gs_zoo_instance *instance, gs_scalar type, size_t count) {
    return gs_zoo_buffer_add(instance, type, count, 0, 0);
}

int gs_zoo_buffer_made(gs_zoo_instance *instance, gs_scalar type, size_t count,
                       void (*make)(void *data, size_t count, const int32_t *n)) {
    int number = gs_zoo_buffer_zero(instance, type, count);
    instance->buffers[number].make = make;
    return number;
}

static size_t kind_of(gs_zoo_instance *instance, const char *source, const char *kernel) {
    for (size_t i = 0; i < instance->kind_count; i++)
        if (strcmp(instance->kinds[i].source, source) == 0 && strcmp(instance->kinds[i].kernel, kernel) == 0)
            return i;
    if (instance->kind_count == GS_ZOO_KINDS) {
        instance->failed = true;
        return 0;
    }
    instance->kinds[instance->kind_count] = (gs_zoo_kind){.source = source, .kernel = kernel};
    return instance->kind_count++;
}

const gs_zoo_launch *gs_zoo_launch_first(const gs_zoo_instance *instance, size_t kind) {
    for (size_t i = 0; i < instance->launches.count; i++)
        if (instance->launches.data[i].kind == kind)
            return &instance->launches.data[i];
    return NULL;
}

void gs_zoo_launch_add(gs_zoo_instance *instance, const char *source, const char *kernel, const uint32_t grid[3],
                       const uint32_t block[3], const char *arguments, ...) {
    if (!GS_RESERVE(&instance->launches, 1) || strlen(arguments) > GS_COUNT(instance->launches.data->list)) {
        instance->failed = true;
        return;
    }
    gs_zoo_launch *launch = &instance->launches.data[instance->launches.count++];
    *launch = (gs_zoo_launch){.kind = kind_of(instance, source, kernel)};
    memcpy(launch->grid, grid, sizeof launch->grid);
    memcpy(launch->block, block, sizeof launch->block);
    va_list list;
    va_start(list, arguments);
    for (const char *letter = arguments; *letter; letter++) {
        gs_job_argument *argument = &launch->list[launch->arguments++];
        *argument = (gs_job_argument){.buffer = -1, .bytes = 4};
        if (*letter == 'b') {
            *argument = (gs_job_argument){.buffer = va_arg(list, int)};
        } else if (*letter == 'i') {
            int32_t value = va_arg(list, int);
            memcpy(argument->value, &value, sizeof value);
        } else {
            float value = (float)va_arg(list, double);
            memcpy(argument->value, &value, sizeof value);
        }
    }
    va_end(list);
}

void gs_zoo_launch_shared(gs_zoo_instance *instance, size_t bytes) {
    if (instance->launches.count)
        instance->launches.data[instance->launches.count - 1].shared_bytes = bytes;
}

/* ---- of a file ---- */

static gs_code add_buffer(gs_zoo_instance *instance, const gs_launch_file *launch, size_t argument, bool is_filled,
                          gs_job_argument *into, gs_error *error) {
    gs_launch_part part = gs_launch_part_at(launch, argument);
    into->buffer = gs_zoo_buffer_add(instance, part.type, part.count, 0, 1); /* from 0 to 1: not all are zeros */
    if (instance->failed)
        return gs_fail(error, GS_E_USAGE, "a launch may have at most %d buffers", GS_ZOO_BUFFERS);
    if (!is_filled)
        return GS_OK;
    gs_zoo_buffer *buffer = &instance->buffers[into->buffer];
    buffer->data = malloc(part.count * gs_scalar_bytes(part.type) + 1);
    if (!buffer->data)
        return gs_fail_memory(error);
    gs_launch_part_fill(launch, argument, buffer->data);
    return GS_OK;
}

gs_code gs_zoo_launch_add_file(gs_zoo_instance *instance, const char *source, const char *kernel,
                               const gs_launch_file *launch, bool is_filled, gs_error *error) {
    gs_launch_outline outline = gs_launch_outline_of(launch);
    if (outline.arguments > GS_COUNT(((gs_zoo_launch *)0)->list))
        return gs_fail(error, GS_E_USAGE, "a launch may have at most %zu arguments",
                       GS_COUNT(((gs_zoo_launch *)0)->list));
    if (!GS_RESERVE(&instance->launches, 1))
        return gs_fail_memory(error);
    gs_zoo_launch *made = &instance->launches.data[instance->launches.count++];
    *made = (gs_zoo_launch){.shared_bytes = outline.shared_bytes, .arguments = (uint32_t)outline.arguments};
    instance->kinds[0] = (gs_zoo_kind){.source = source, .kernel = kernel, .is_file = true};
    instance->kind_count = 1;
    memcpy(made->grid, outline.grid, sizeof made->grid);
    memcpy(made->block, outline.block, sizeof made->block);
    gs_code code = GS_OK;
    for (size_t i = 0; i < outline.arguments && code == GS_OK; i++) {
        gs_launch_part part = gs_launch_part_at(launch, i);
        made->list[i] = (gs_job_argument){.buffer = -1, .bytes = (uint32_t)gs_scalar_bytes(part.type)};
        if (part.is_buffer)
            code = add_buffer(instance, launch, i, is_filled, &made->list[i], error);
        else
            memcpy(made->list[i].value, part.value, sizeof part.value);
    }
    return code;
}

/* ---- inputs and expected results ---- */

double gs_zoo_random(uint64_t seed, size_t index, double low, double high) {
    gs_random random = gs_random_at(seed, index);
    return low + (high - low) * ((double)(gs_random_next(&random) >> 11) / 9007199254740992.0);
}

/* Long buffers repeat after `period` elements, because random numbers take long to make. The period is a prime number,
   so that an element at a wrong place differs from the right one. */
void gs_zoo_fill(gs_scalar type, uint64_t seed, double low, double high, void *data, size_t count) {
    const size_t period = 1000003, bytes = gs_scalar_bytes(type);
    size_t made = gs_min_u64(count, period);
    for (size_t i = 0; i < made; i++)
        gs_scalar_put(type, gs_zoo_random(seed, i, low, high), data, i);
    for (; made < count; made += period)
        memcpy((char *)data + made * bytes, data, gs_min_u64(count - made, period) * bytes);
}

static gs_code fill_buffer(gs_zoo_instance *instance, size_t number, gs_error *error) {
    gs_zoo_buffer *buffer = &instance->buffers[number];
    if (buffer->data) /* of a file */
        return GS_OK;
    buffer->data = calloc(buffer->count + 1, gs_scalar_bytes(buffer->type));
    if (!buffer->data)
        return gs_fail_memory(error);
    if (buffer->make)
        buffer->make(buffer->data, buffer->count, instance->size->n);
    else if (buffer->low < buffer->high)
        gs_zoo_fill(buffer->type, number + 1, buffer->low, buffer->high, buffer->data, buffer->count);
    return GS_OK;
}

static gs_code run_reference(gs_zoo_instance *instance, gs_error *error) {
    void *data[GS_ZOO_BUFFERS];
    for (size_t i = 0; i < instance->buffer_count; i++) {
        gs_zoo_buffer *buffer = &instance->buffers[i];
        size_t bytes = buffer->count * gs_scalar_bytes(buffer->type);
        data[i] = buffer->expected = malloc(bytes + 1);
        if (!data[i])
            return gs_fail_memory(error);
        memcpy(data[i], buffer->data, bytes);
    }
    instance->kernel->reference(data, instance->size->n);
    return GS_OK;
}

gs_code gs_zoo_instance_make(gs_zoo_instance *instance, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                             gs_error *error) {
    gs_code code = GS_OK;
    *instance = (gs_zoo_instance){.kernel = kernel, .size = size};
    kernel->instance(instance, size->n);
    if (instance->failed)
        code = gs_fail_memory(error);
    for (size_t i = 0; i < instance->buffer_count && code == GS_OK; i++)
        code = fill_buffer(instance, i, error);
    if (code == GS_OK && !gs_zoo_size_is_large(size))
        code = run_reference(instance, error);
    if (code != GS_OK)
        gs_zoo_instance_free(instance);
    return code;
}

void gs_zoo_instance_free(gs_zoo_instance *instance) {
    for (size_t i = 0; i < instance->buffer_count; i++) {
        free(instance->buffers[i].data);
        free(instance->buffers[i].expected);
    }
    free(instance->launches.data);
    *instance = (gs_zoo_instance){0};
}
