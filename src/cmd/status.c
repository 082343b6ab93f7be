/*
 * status.c: gridsmith status: what a daemon is doing. top.c prints the same table again and again.
 */
#include "status.h"
#include "client/client.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *socket;
    bool json;
};

static const gs_option option_table[] = {
    GS_SOCKET_OPTION(struct options, socket),
    GS_FLAG(struct options, "json", json, "write gridsmith.status/1"),
};

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    const char *found = json_string_value(json_object_get(object, key));
    return found ? found : "";
}

/* The same client in the status before, or NULL. */
static const json_t *find_client(const json_t *before, double process, const char *name) {
    size_t i;
    json_t *client;
    json_array_foreach(json_object_get(before, "clients"), i, client) {
        if (number(client, "process") == process && strcmp(word(client, "name"), name) == 0)
            return client;
    }
    return NULL;
}

static void print_kernels(const json_t *client) {
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(client, "kernels"), i, kernel) {
        printf("    stream %-2.0f %-28.28s %-6s", number(kernel, "stream"), word(kernel, "kernel"),
               word(kernel, "state"));
        if (strcmp(word(kernel, "form"), "confined") == 0)
            printf(" %3.0f SMs: %s; %.0f of %.0f blocks", number(kernel, "sms"), word(kernel, "on"),
                   number(kernel, "done"), number(kernel, "blocks"));
        else if (strcmp(word(kernel, "form"), "original") == 0)
            printf(" whole; %.0f blocks", number(kernel, "blocks"));
        printf("\n");
    }
}

/* Rates are since `before`; NULL: since the daemon was started. */
static void print_client(const json_t *client, const json_t *before, double seconds) {
    const json_t *old = find_client(before, number(client, "process"), word(client, "name"));
    double launches = number(client, "launches") - number(old, "launches");
    double served = number(client, "served_sm_ns") - number(old, "served_sm_ns");
    double copied = number(client, "copied_bytes") - number(old, "copied_bytes");
    printf("%8.0f %-20.20s %6.0f %4.0f %10.1f %11.1f %8.1f %8.1f  %s\n", number(client, "process"),
           word(client, "name"), number(client, "weight"), number(client, "priority"),
           number(client, "memory_bytes") / 1048576, launches / seconds, served / 1e9 / seconds,
           copied / 1048576 / seconds, word(client, "state"));
    print_kernels(client);
}

void gs_print_status(const json_t *status, const json_t *before) {
    const json_t *device = json_object_get(status, "device"), *first = json_object_get(status, "first_block");
    double seconds =
        before ? (number(status, "time_ns") - number(before, "time_ns")) / 1e9 : number(status, "uptime_ns") / 1e9;
    size_t i;
    json_t *client;
    seconds = seconds > 1e-6 ? seconds : 1e-6;
    printf("%s, up %.0f s; worker process %.0f, restarted %.0f times%s\n", word(device, "name"),
           number(status, "uptime_ns") / 1e9, number(device, "process"), number(device, "restarts"),
           json_is_true(json_object_get(device, "is_down")) ? ", DOWN" : "");
    printf("%.1f launches/s, %.1f resizes/s; arrival to first block: median %.0f us, 99%% %.0f us, most %.0f us\n",
           (number(status, "launches") - number(before, "launches")) / seconds,
           (number(status, "resizes") - number(before, "resizes")) / seconds, number(first, "p50_us"),
           number(first, "p99_us"), number(first, "most_us"));
    printf("\n%8s %-20s %6s %4s %10s %11s %8s %8s  %s\n", "process", "client", "weight", "prio", "memory MiB",
           "launches/s", "SMs", "MiB/s", "state");
    json_array_foreach(json_object_get(status, "clients"), i, client) {
        print_client(client, before, seconds);
    }
}

json_t *gs_status_get(const char *socket, char **text, gs_error *error) {
    json_error_t wrong;
    if (gs_status_request(socket, text, error) != GS_OK)
        return NULL;
    json_t *status = json_loads(*text, 0, &wrong);
    if (!status)
        gs_fail(error, GS_E_SYNTAX, "the daemon's answer is not JSON: %s", wrong.text);
    return status;
}

static int show(const struct options *options) {
    gs_error error = {.code = GS_OK};
    char *text = NULL;
    json_t *status = gs_status_get(options->socket, &text, &error);
    if (status && options->json)
        fputs(text, stdout);
    else if (status)
        gs_print_status(status, NULL);
    int code = status ? 0 : gs_report(&error);
    json_decref(status);
    free(text);
    return code;
}

static int run(const gs_command *command, void *given, const gs_words *words) {
    (void)command;
    (void)words;
    return show(given);
}

const gs_command gs_command_status = {
    .name = "status",
    .summary = "What a daemon is doing: its clients, their kernels and SMs.",
    .usage = "[--json] [options]",
    .details = "Rates are averages since the daemon was started; 'gridsmith top' shows those of the last second.\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .run = run,
};
