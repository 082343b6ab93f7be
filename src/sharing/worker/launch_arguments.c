/*
 * launch_arguments.c: the arguments of a launch, packed as clients pack them: a gs_wire_argument, then its value,
 * padded to a multiple of 8; for memory the value is the offset.
 */
#include "worker.h"

static uint32_t padded_bytes(uint32_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static bool add_argument(gs_worker_launch *launch, uint32_t memory, const void *value, uint32_t bytes) {
    const gs_wire_argument head = {.memory = memory, .bytes = bytes};
    uint32_t used = launch->argument_bytes, left = (uint32_t)sizeof launch->arguments - used;
    if (!bytes || bytes > GS_CLIENT_VALUE_BYTES || left < sizeof head + padded_bytes(bytes))
        return false;
    memcpy(launch->arguments + used, &head, sizeof head);
    memcpy(launch->arguments + used + sizeof head, value, bytes);
    launch->argument_bytes = used + (uint32_t)sizeof head + padded_bytes(bytes);
    launch->argument_count++;
    return true;
}

bool gs_launch_add_value(gs_worker_launch *launch, const void *value, uint32_t bytes) {
    return add_argument(launch, 0, value, bytes);
}

bool gs_launch_add_memory(gs_worker_launch *launch, uint32_t memory, uint64_t at) {
    return memory && add_argument(launch, memory, &at, sizeof at);
}

bool gs_launch_next(const gs_worker_launch *launch, uint32_t *at, gs_launch_argument_view *argument) {
    gs_wire_argument head;
    if (launch->argument_bytes > sizeof launch->arguments || launch->argument_bytes - *at < sizeof head)
        return false;
    memcpy(&head, launch->arguments + *at, sizeof head);
    uint32_t left = launch->argument_bytes - *at - (uint32_t)sizeof head;
    if (!head.bytes || head.bytes > left || padded_bytes(head.bytes) > left ||
        (head.memory && head.bytes != sizeof(uint64_t)))
        return false;
    *argument = (gs_launch_argument_view){
        .memory = head.memory, .bytes = head.bytes, .value = launch->arguments + *at + sizeof head};
    if (head.memory)
        memcpy(&argument->at, argument->value, sizeof argument->at);
    *at += (uint32_t)sizeof head + padded_bytes(head.bytes);
    return true;
}
