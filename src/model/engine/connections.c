/*
 * connections.c: the connections of a program to the GPU (CUDA_DEVICE_MAX_CONNECTIONS).
 *
 * A launch is sent through a connection, and waits there until it may enter the queue of the GPU: for the launch before
 * it in its stream, for example. Launches leave a connection in their order, so those of other streams wait behind it.
 * A stream that is not idle keeps its connection if nothing waits there, or if what was sent there last is its own.
 * Otherwise a launch takes, of the connections in which nothing waits, the one that was used the longest time ago; of
 * all connections, if something waits in each. So the launches of one stream can be in several connections.
 * Nodes of graphs need no connection of their own. Runs with durations are played without.
 */
#include "engine_state.h"

#include <stdlib.h>

bool gs_connections_init(gs_engine *engine) {
    if (!engine->run->connections || engine->hooks.endless || gs_run_is_timed(engine->run))
        return true;
    engine->connections.data = calloc((size_t)engine->run->connections, sizeof *engine->connections.data);
    for (int32_t i = 0; engine->connections.data && i < engine->run->connections; i++)
        engine->connections.data[i] = (struct connection){NO_LAUNCH, NO_LAUNCH, 0};
    return engine->connections.data;
}

/* Of the connections in which nothing waits, the one that was used the longest time ago; of all, if there is none. */
static int32_t choose_connection(const gs_engine *engine) {
    int32_t chosen = 0;
    for (int32_t i = 1; i < engine->run->connections; i++) {
        const struct connection *one = &engine->connections.data[i], *best = &engine->connections.data[chosen];
        bool is_free = one->head == NO_LAUNCH, best_is_free = best->head == NO_LAUNCH;
        if (is_free != best_is_free ? is_free : one->used < best->used)
            chosen = i;
    }
    return chosen;
}

/* Whether a launch stays in the connection of its stream. */
static bool keeps_connection(const gs_engine *engine, size_t launch, const struct stream *stream) {
    if (!stream || stream->connection < 0)
        return false;
    const struct connection *connection = &engine->connections.data[stream->connection];
    return connection->head == NO_LAUNCH || engine->plays[connection->tail].stream == engine->plays[launch].stream;
}

int32_t gs_connections_join(gs_engine *engine, size_t launch, const struct stream *stream) {
    struct play *play = &engine->plays[launch];
    if (!engine->connections.data || gs_issue_is_node(gs_run_issue(engine->run, launch)))
        return -1;
    play->connection = keeps_connection(engine, launch, stream) ? stream->connection : choose_connection(engine);
    struct connection *connection = &engine->connections.data[play->connection];
    connection->used = ++engine->connections.uses;
    *(connection->head == NO_LAUNCH ? &connection->head : &engine->plays[connection->tail].next_connected) = launch;
    connection->tail = launch;
    return play->connection;
}

bool gs_connections_is_first(const gs_engine *engine, size_t operation) {
    int32_t connection = engine->plays[operation].connection;
    return connection < 0 || engine->connections.data[connection].head == operation;
}

size_t gs_connections_leave(gs_engine *engine, size_t operation) {
    struct play *play = &engine->plays[operation];
    if (play->connection < 0)
        return NO_LAUNCH;
    struct connection *connection = &engine->connections.data[play->connection];
    bool was_first = connection->head == operation;
    size_t before = NO_LAUNCH;
    for (size_t i = connection->head; i != operation; i = engine->plays[i].next_connected)
        before = i;
    *(was_first ? &connection->head : &engine->plays[before].next_connected) = play->next_connected;
    if (connection->tail == operation)
        connection->tail = before;
    play->connection = -1;
    play->next_connected = NO_LAUNCH;
    return was_first ? connection->head : NO_LAUNCH;
}
