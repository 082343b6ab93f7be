/*
 * profile_commands.c: what is known of the programs of `gridsmith run`, by what they execute.
 *
 * A list of the commands that were seen last. Whoever starts one again asks whether its kernels could be stopped soon.
 */
#include "profile_store.h"

static gs_command_profile *find_command(gs_profile_store *store, uint64_t key) {
    gs_command_profile *oldest = &store->commands[0];
    for (size_t i = 0; i < GS_STORE_COMMANDS; i++) {
        if (store->commands[i].key == key)
            return &store->commands[i];
        if (store->commands[i].used < oldest->used)
            oldest = &store->commands[i];
    }
    *oldest = (gs_command_profile){.key = key};
    return oldest;
}

void gs_profile_store_command(gs_profile_store *store, uint64_t key, double late_percent) {
    gs_command_profile *command = find_command(store, key);
    command->late_percent = late_percent;
    command->used = ++store->uses;
    command->is_dirty = true;
}

const gs_command_profile *gs_profile_store_next_command(const gs_profile_store *store, size_t *at) {
    while (*at < GS_STORE_COMMANDS) {
        const gs_command_profile *command = &store->commands[(*at)++];
        if (command->key)
            return command;
    }
    return NULL;
}
