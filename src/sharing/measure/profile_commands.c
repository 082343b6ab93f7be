/*
 * profile_commands.c: what is known of the programs of `gridsmith run`, by what they execute.
 *
 * A list of the commands that were seen last. When one is started again, `run` asks what requests lost beside it.
 */
#include "profile_store.h"

const gs_command_profile *gs_profile_store_command(const gs_profile_store *store, uint64_t key) {
    for (size_t i = 0; i < GS_STORE_COMMANDS; i++)
        if (store->commands[i].key == key)
            return &store->commands[i];
    return NULL;
}

/* Its place, or that of the command that was seen least recently. */
static gs_command_profile *place_of(gs_profile_store *store, uint64_t key) {
    gs_command_profile *oldest = &store->commands[0];
    for (size_t i = 0; i < GS_STORE_COMMANDS; i++) {
        if (store->commands[i].key == key)
            return &store->commands[i];
        if (store->commands[i].used < oldest->used)
            oldest = &store->commands[i];
    }
    return oldest;
}

void gs_profile_store_put_command(gs_profile_store *store, const gs_command_profile *command) {
    gs_command_profile *place = place_of(store, command->key);
    *place = *command;
    place->used = ++store->uses;
    place->is_dirty = true;
}

const gs_command_profile *gs_profile_store_next_command(const gs_profile_store *store, size_t *at) {
    while (*at < GS_STORE_COMMANDS) {
        const gs_command_profile *command = &store->commands[(*at)++];
        if (command->key)
            return command;
    }
    return NULL;
}
